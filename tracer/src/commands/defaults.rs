//! Defaults of options, from `memtrace.toml` or from `[tool.memtrace]` in `pyproject.toml`: of the
//! nearest directory upwards that has one. The command line wins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, Command, value_parser};
use toml::{Table, Value};

use super::usage::Usage;

/// The tables of budgets, which `check` reads: no defaults of options.
pub const BUDGET: &str = "budget";

/// The nearest file, from `directory` upwards, that says what is wanted, and what it says.
///
/// # Errors
/// It cannot be read.
pub fn nearest(directory: &Path, wanted: impl Fn(&Table) -> bool) -> Result<Option<(PathBuf, Table)>> {
    for directory in directory.ancestors() {
        for file in ["memtrace.toml", "pyproject.toml"].map(|name| directory.join(name)) {
            let table = if file.is_file() { table_of(&file)? } else { None };
            if let Some(table) = table.filter(&wanted) {
                return Ok(Some((file, table)));
            }
        }
    }
    Ok(None)
}

/// What a file says to memtrace.
///
/// # Errors
/// It cannot be read.
pub fn table_of(file: &Path) -> Result<Option<Table>> {
    match file.file_name().is_some_and(|name| name == "pyproject.toml") {
        true => of_project(file),
        false => read(file).map(Some),
    }
}

/// What a file says.
pub struct Defaults {
    file: PathBuf,
    /// Tables by subcommand; what is not in one is of all of them.
    table: Table,
}

impl Defaults {
    /// Of the nearest directory, from `directory` upwards, that says anything.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn find(directory: &Path) -> Result<Option<Defaults>> {
        Ok(nearest(directory, |_| true)?.map(|(file, table)| Defaults { file, table }))
    }

    /// The command line with these defaults.
    ///
    /// # Errors
    /// [`Usage`]: there is no such option, or it takes no such value.
    pub fn apply(&self, mut command: Command) -> Result<Command> {
        for (key, value) in self.table.iter().filter(|(key, _)| *key != BUDGET) {
            command = match value {
                Value::Table(options) => self.apply_to_subcommand(command, key, options)?,
                value => self.apply_to(command, "memtrace", key, value)?,
            };
        }
        Ok(command)
    }

    fn apply_to_subcommand(&self, mut command: Command, name: &str, options: &Table) -> Result<Command> {
        let Some(mut subcommand) = command.find_subcommand(name).cloned() else {
            bail!(
                self.refusal(&format!("[{name}] is no subcommand; write [record], [sweep], [recommend], …"))
            );
        };
        for (key, value) in options {
            subcommand = self.apply_to(subcommand, &format!("memtrace {name}"), key, value)?;
            if name == "record" {
                command = self.apply_to(command, "memtrace record", key, value)?;
            }
        }
        Ok(command.mut_subcommand(name, |_| subcommand))
    }

    fn apply_to(&self, command: Command, name: &str, key: &str, value: &Value) -> Result<Command> {
        let takes = |arg: &&Arg| arg.get_long() == Some(key) && is_of_user(arg);
        let Some(arg) = command.get_arguments().find(takes) else {
            bail!(self.refusal(&format!("{name} has no option {key:?}; {name} --help-all lists them")));
        };
        let (id, arg) = (arg.get_id().clone(), with_default(arg.clone(), value));
        let arg = arg.map_err(|why| self.refusal(&format!("{key} {why}")))?;
        Ok(command.mut_arg(id, |_| arg))
    }

    fn refusal(&self, why: &str) -> Usage {
        Usage(format!("{}: {why}", self.file.display()))
    }

    /// The name of the file, if this value that was refused is from it.
    pub fn origin(&self, value: &str) -> Option<String> {
        let says = |found: &Value| texts(found).is_ok_and(|texts| texts.iter().any(|text| text == value));
        let of_table = |found: &Value| found.as_table().is_some_and(|table| table.values().any(says));
        let said = self.table.values().any(|found| says(found) || of_table(found));
        (said && std::env::args_os().all(|argument| !argument.to_string_lossy().contains(value)))
            .then(|| self.file.display().to_string())
    }
}

/// True for options that a file may have.
fn is_of_user(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue)
}

fn with_default(arg: Arg, value: &Value) -> Result<Arg, &'static str> {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        let Value::Boolean(on) = value else { return Err("is true or false") };
        // `--name=false` turns off what the file turns on.
        let arg = arg.action(ArgAction::Set).value_parser(value_parser!(bool)).num_args(0..=1);
        let arg = arg.require_equals(true);
        return Ok(arg.default_missing_value("true").default_value(if *on { "true" } else { "false" }));
    }
    let takes_several = matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some();
    if value.is_array() && !takes_several {
        return Err("takes one value");
    }
    Ok(arg.required(false).default_values(texts(value)?))
}

/// The value as it would stand on the command line.
fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Array(values) => Ok(values.iter().map(texts).collect::<Result<Vec<_>, _>>()?.concat()),
        _ => Err("is a text, a number, or a list of them"),
    }
}

fn read(file: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.parse().map_err(|error: toml::de::Error| {
        let place = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        Usage(format!("{}, line {place}: {}", file.display(), error.message())).into()
    })
}

/// `[tool.memtrace]`. A file without it is not memtrace's to judge.
fn of_project(file: &Path) -> Result<Option<Table>> {
    let mentions = std::fs::read_to_string(file).is_ok_and(|text| text.contains("memtrace"));
    if !mentions {
        return Ok(None);
    }
    let Some(Value::Table(mut tools)) = read(file)?.remove("tool") else { return Ok(None) };
    match tools.remove("memtrace") {
        Some(Value::Table(table)) => Ok(Some(table)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, arguments: &[&str]) -> Result<clap::ArgMatches, String> {
        let defaults = Defaults { file: "memtrace.toml".into(), table: text.parse().unwrap() };
        let quiet = Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).global(true);
        let runs = Arg::new("runs").long("runs").required(true);
        let names = Arg::new("names").long("names").action(ArgAction::Append);
        let sweep = Command::new("sweep").arg(runs).arg(names);
        let command = defaults.apply(Command::new("memtrace").arg(quiet).subcommand(sweep));
        let command = command.map_err(|error| error.to_string())?;
        command.try_get_matches_from(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_wins() {
        let text = "quiet = true\n[sweep]\nruns = 7\nnames = ['a', 'b']";
        let of = |arguments: &[&str]| {
            let matches = applied(text, arguments).unwrap();
            let (_, sweep) = matches.subcommand().unwrap();
            let names: Vec<String> = sweep.get_many("names").unwrap().cloned().collect();
            (sweep.get_one::<String>("runs").unwrap().clone(), names.concat(), sweep.get_flag("quiet"))
        };
        assert_eq!(of(&["memtrace", "sweep"]), ("7".into(), "ab".into(), true));
        let given = ["memtrace", "sweep", "--runs", "5", "--names", "c", "--quiet=false"];
        assert_eq!(of(&given), ("5".into(), "c".into(), false));
    }

    #[test]
    fn unknown_keys_and_values_of_another_kind_are_refused_in_a_sentence() {
        for (text, why) in [
            ("[swep]\nruns = 7", "memtrace.toml: [swep] is no subcommand"),
            ("[sweep]\nrun = 7", "memtrace.toml: memtrace sweep has no option \"run\""),
            ("verbose = true", "memtrace.toml: memtrace has no option \"verbose\""),
            ("quiet = 1", "memtrace.toml: quiet is true or false"),
            ("[sweep]\nruns = [1, 2]", "memtrace.toml: runs takes one value"),
        ] {
            let error = applied(text, &["memtrace", "sweep"]).unwrap_err();
            assert!(error.starts_with(why) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn the_nearest_file_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(root.path().join("memtrace.toml"), "[sweep]\nruns = 5").unwrap();
        std::fs::write(inner.join("pyproject.toml"), "[project]\nname = 'x'").unwrap();
        let of = || format!("{:?}", Defaults::find(&inner).unwrap().unwrap().table);
        assert!(of().contains('5'));
        std::fs::write(root.path().join("a/pyproject.toml"), "[tool.memtrace.sweep]\nruns = 6").unwrap();
        assert!(of().contains('6'));
    }
}
