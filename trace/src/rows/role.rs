use crate::column::labels;

labels! {
    /// What a block was to the span it was allocated in.
    pub enum Role {
        /// Not (yet) known to be anything else.
        None = "none",
        /// Holds (part of) an input of a later span, and is nothing else.
        Input = "input",
        /// Holds (part of) a result of the span, or of one around it.
        Output = "output",
        /// Released before its span ended.
        Temporary = "temporary",
        /// Outlives its span, is not its output, and no later span of the operator allocates it
        /// again.
        OneTime = "one_time",
    }
}
