//! The Python text that the probe has interpreters run when they start: the recorder's source, wrapped so
//! that it leaves nothing behind in `__main__` and never raises into the program.

/// Source of the recorder, five files of the Python package that are run as one.
const RECORDER: &str = concat!(
    include_str!("../../../python/memtrace/_recorder_arrays.py"),
    include_str!("../../../python/memtrace/_recorder.py"),
    include_str!("../../../python/memtrace/_recorder_natives.py"),
    include_str!("../../../python/memtrace/_recorder_context.py"),
    include_str!("../../../python/memtrace/_recorder_gc.py"),
);

/// What the recorder's code says it is from.
pub const RECORDER_FILE: &str = "<memtrace recorder>";

/// The text for these operators, and for a garbage collector that is to be watched (`observe`, `eager`). The recorder
/// is compiled, some milliseconds of every interpreter's start, only when there is something to watch, or when the
/// program first asks its module for anything (`@memtrace.operator`, `memtrace.span`). Of two threads that ask at the
/// same time, one loads the text that counts (`setdefault`): there is one set of operators.
pub fn python(operators: &[String], gc: Option<&str>) -> String {
    let config = serde_json::json!({ "operators": operators, "gc": gc.unwrap_or_default() });
    // Python reads JSON strings as its own: no operator name can break out of the literal.
    let source = serde_json::Value::from(RECORDER);
    let config = serde_json::Value::from(config.to_string());
    let install = if operators.is_empty() && gc.is_none() {
        String::new()
    } else {
        format!("\x20       recorder.install(eval({config}, {{}}, {{}}))\n")
    };
    format!(
        "def _memtrace_start():\n\
         \x20   import sys\n\
         \x20   class Recorder(type(sys)):\n\
         \x20       def __getattr__(self, name):\n\
         \x20           if name[:2] == '__':\n\
         \x20               raise AttributeError(name)\n\
         \x20           if '_loaded' not in self.__dict__:\n\
         \x20               text = {{'__name__': self.__name__}}\n\
         \x20               exec(compile({source}, '{RECORDER_FILE}', 'exec'), text)\n\
         \x20               self.__dict__.setdefault('_loaded', text)\n\
         \x20           if name not in self._loaded:\n\
         \x20               raise AttributeError(name)\n\
         \x20           return self._loaded[name]\n\
         \x20   try:\n\
         \x20       sys.modules['_memtrace_recorder'] = recorder = Recorder('_memtrace_recorder')\n\
         {install}\
         \x20   except BaseException:\n\
         \x20       pass\n\
         _memtrace_start()\n\
         del _memtrace_start\n"
    )
}
