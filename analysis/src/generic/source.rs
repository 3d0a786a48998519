//! What a program's text says, whatever its language: statements over values (docs/generic.md).
//!
//! An extractor for a language writes this as JSON; [`super::machine`] walks it without running it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::Error;

/// Version of the JSON this program reads; later ones are refused.
pub const SOURCE_VERSION: u32 = 1;

/// An operator and the functions it calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// See [`SOURCE_VERSION`].
    pub source_version: u32,
    /// `python`, …
    pub language: String,
    /// Name of the function to bound, a key of `functions`.
    pub entry: String,
    /// Functions by name; calls of names that are not here go to the library.
    pub functions: BTreeMap<String, Function>,
    /// Versions of the libraries it would call.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// A function's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// File it stands in.
    #[serde(default)]
    pub file: String,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub body: Vec<Line>,
    /// It sees the variables of the function it was made in.
    #[serde(default)]
    pub nested: bool,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is where a call does not give it; null: it must be given.
    #[serde(default)]
    pub default: Option<Expression>,
    /// What it takes of a call.
    #[serde(default)]
    pub takes: Takes,
}

/// How a parameter is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// One value, by place or name.
    #[default]
    One,
    /// One value, by name only.
    Named,
    /// All further values given by place, as a sequence.
    Rest,
    /// All further values given by name, as a mapping.
    Names,
}

/// A statement and the line it stands on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Line in the function's file, from 1; 0 if unknown.
    #[serde(default)]
    pub line: u32,
    /// What stands there.
    #[serde(flatten)]
    pub statement: Statement,
}

/// A statement. A value lives as long as a name, or a value that does, refers to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// `targets[0] = targets[1] = … = value`
    Assign {
        /// Names, items, attributes, or sequences of them.
        targets: Vec<Expression>,
        /// What they become.
        value: Expression,
    },
    /// `target operator= value`: in place where the target is an array.
    Update {
        /// A name or an item.
        target: Expression,
        /// `+`, `-`, …
        operator: String,
        /// Right-hand side.
        value: Expression,
    },
    /// A value that is not kept.
    Evaluate(Expression),
    /// The function's result.
    Return(Option<Expression>),
    /// One of two arms.
    If {
        /// Condition.
        test: Expression,
        /// Where it is true.
        then: Vec<Line>,
        /// Where it does not.
        #[serde(default)]
        otherwise: Vec<Line>,
    },
    /// Once for each item.
    For {
        /// What an item becomes.
        target: Expression,
        /// What is gone through.
        over: Expression,
        /// What is done with each.
        body: Vec<Line>,
    },
    /// While a condition is true.
    While {
        /// Condition.
        test: Expression,
        /// What is repeated.
        body: Vec<Line>,
    },
    /// `break`, `continue` or `raise`.
    Leave(Leave),
    /// Names that refer to nothing from here on.
    Release(Vec<String>),
}

/// Ways out of the ordinary order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// Out of the loop.
    Break,
    /// To the next repetition.
    Continue,
    /// Out of the program: this path is at its end.
    Raise,
}

/// A value, or how to come by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expression {
    /// A variable.
    Name(String),
    /// A number, a text, true, false or null.
    Value(Json),
    /// An element type, as NumPy writes it: `<f4`.
    Dtype(String),
    /// A function: a key of `functions`, or a library's.
    Function(String),
    /// A call.
    Call {
        /// Whom.
        function: Box<Expression>,
        /// Values by place.
        #[serde(default)]
        args: Vec<Expression>,
        /// Values by name; `**` for a mapping of them.
        #[serde(default)]
        keywords: Vec<(String, Expression)>,
        /// Line.
        #[serde(default)]
        line: u32,
    },
    /// An operator between values: `+`, `<`, `@`, `and`, `in`; one operand: `neg`, `not`, `invert`.
    Operate {
        /// Which.
        operator: String,
        /// Its operands.
        args: Vec<Expression>,
        /// Line.
        #[serde(default)]
        line: u32,
    },
    /// `of[index]`
    Item {
        /// The container.
        of: Box<Expression>,
        /// One per axis.
        index: Vec<Expression>,
        /// Line.
        #[serde(default)]
        line: u32,
    },
    /// `start:stop:step` inside of an index.
    Slice(Box<[Option<Expression>; 3]>),
    /// `...` inside of an index.
    Rest,
    /// `of.name`
    Attribute {
        /// Whose.
        of: Box<Expression>,
        /// Which.
        name: String,
    },
    /// A list or tuple.
    Sequence(Vec<Expression>),
    /// Keys and values.
    Mapping(Vec<(Expression, Expression)>),
    /// All items of a sequence, in a call or a list.
    Spread(Box<Expression>),
    /// A list made by repetition.
    Each {
        /// One item of the result.
        item: Box<Expression>,
        /// What an item of `over` becomes.
        target: Box<Expression>,
        /// What is gone through.
        over: Box<Expression>,
        /// Conditions; an item is taken if they may be true.
        #[serde(default)]
        when: Vec<Expression>,
    },
    /// One of two values.
    Choose {
        /// Condition.
        test: Box<Expression>,
        /// Where it is true.
        then: Box<Expression>,
        /// Where it does not.
        otherwise: Box<Expression>,
        /// Line.
        #[serde(default)]
        line: u32,
    },
    /// What the extractor could not say; its text.
    Unknown(String),
}

impl Source {
    /// Reads a description from JSON text.
    ///
    /// # Errors
    /// [`Error::Source`]: it is none, it is a later version's, or its entry is not in it.
    pub fn parse(text: &str) -> Result<Source, Error> {
        let value: Json = serde_json::from_str(text).map_err(|error| Error::Source(error.to_string()))?;
        let version = value.get("source_version").and_then(Json::as_u64);
        let found = version.ok_or_else(|| Error::Source("it has no source_version".to_owned()))?;
        if found > u64::from(SOURCE_VERSION) {
            return Err(Error::Source(format!(
                "it has version {found}, this memtrace reads up to {SOURCE_VERSION}: update memtrace"
            )));
        }
        let source: Source =
            serde_json::from_value(value).map_err(|error| Error::Source(error.to_string()))?;
        if !source.functions.contains_key(&source.entry) {
            return Err(Error::Source(format!("its entry {} is not among its functions", source.entry)));
        }
        Ok(source)
    }
}
