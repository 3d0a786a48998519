//! Shell completions, manual pages and the command reference, all made from the definition of the
//! command line.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::StyledStr;
use clap::{Arg, Args, Command};
use clap_complete::Shell;

use crate::terminal;

/// Shells for which the wheel has completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Which completions to print.
#[derive(Args)]
pub struct Completions {
    /// The shell that will read them
    shell: Shell,
}

/// Where manual pages, completions and the command reference go.
#[derive(Args)]
pub struct Manuals {
    /// Directory to write man1/, completions/ and commands.md into
    directory: PathBuf,
}

/// Prints the completions of one shell.
pub fn completions(arguments: &Completions, command: Command) -> anyhow::Result<ExitCode> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command.disable_help_subcommand(true), name, &mut script);
    terminal::write(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes everything that packages and the documentation site take from the command line.
pub fn manuals(arguments: &Manuals, command: Command) -> anyhow::Result<ExitCode> {
    write_all(&arguments.directory, command)
        .with_context(|| format!("cannot write into {}", arguments.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(directory: &Path, command: Command) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    let (pages, completions) = (directory.join("man1"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let name = command.get_name().to_owned();
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut command, &name, &completions)?;
    }
    command.build();
    for described in all_commands(&command) {
        let file = pages.join(format!("{}.1", described.get_display_name().unwrap_or(&name)));
        clap_mangen::Man::new(described.clone()).render(&mut File::create(file)?)?;
    }
    fs::write(directory.join("commands.md"), reference(&command))
}

/// The command itself and its visible subcommands.
fn all_commands(command: &Command) -> impl Iterator<Item = &Command> {
    std::iter::once(command).chain(command.get_subcommands().filter(|each| !each.is_hide_set()))
}

/// The command reference as Markdown, one section per subcommand.
fn reference(command: &Command) -> String {
    let mut page = String::from("# Commands\n");
    for described in all_commands(command) {
        let title = described.get_bin_name().unwrap_or(described.get_name());
        let _ = write!(page, "\n## {title}\n\n{}\n", about(described));
        let usage = described.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
        let _ = write!(page, "\n```text\n{usage}\n```\n\n");
        for argument in described.get_arguments().filter(|each| !each.is_hide_set()) {
            page += &entry(argument);
        }
    }
    page
}

fn about(command: &Command) -> String {
    escaped(command.get_long_about().or(command.get_about()))
}

/// One argument as an item of a list: how it is written, what it does, its default and its values.
fn entry(argument: &Arg) -> String {
    let help = escaped(argument.get_long_help().or(argument.get_help()));
    let mut item = format!("- `{}`: {help}", written(argument));
    let defaults = argument.get_default_values();
    if argument.get_action().takes_values() && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        let _ = write!(item, " (default: `{}`)", defaults.join(","));
    }
    item.push('\n');
    for value in argument.get_possible_values().iter().filter(|_| argument.get_action().takes_values()) {
        let _ = writeln!(item, "    - `{}`: {}", value.get_name(), escaped(value.get_help()));
    }
    item
}

/// An argument as it is typed: `-o, --output <DIR>`, `--json`, `<TRACE>...`.
fn written(argument: &Arg) -> String {
    if argument.is_positional() {
        return argument.to_string();
    }
    let names: Vec<String> = (argument.get_short().map(|short| format!("-{short}")).into_iter())
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let values = argument.get_value_names().filter(|_| argument.get_action().takes_values());
    let values: Vec<String> = values.unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    [names.join(", "), values.join(" ")].join(" ").trim_end().to_owned()
}

/// Help text with the characters that Markdown would interpret written as themselves.
fn escaped(text: Option<&StyledStr>) -> String {
    let text = text.map(StyledStr::to_string).unwrap_or_default();
    text.replace('<', "&lt;").replace('*', "\\*").replace("__", "\\_\\_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Command {
        Command::new("tool")
            .about("Does <this>")
            .arg(
                Arg::new("count")
                    .short('n')
                    .long("count")
                    .value_name("N")
                    .default_value("3")
                    .help("How often"),
            )
            .subcommand(Command::new("shown").about("Is listed").arg(Arg::new("file").required(true)))
            .subcommand(Command::new("hidden").hide(true))
    }

    #[test]
    fn every_visible_command_has_a_page_and_a_section() {
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path(), example()).unwrap();
        let page = fs::read_to_string(directory.path().join("commands.md")).unwrap();
        assert!(page.contains("## tool\n\nDoes &lt;this>\n"), "{page}");
        assert!(page.contains("- `-n, --count <N>`: How often (default: `3`)\n"), "{page}");
        assert!(page.contains("## tool shown\n") && !page.contains("hidden"), "{page}");
        let mut pages: Vec<_> = fs::read_dir(directory.path().join("man1"))
            .unwrap()
            .map(|each| each.unwrap().file_name())
            .collect();
        pages.sort();
        assert_eq!(pages, ["tool-shown.1", "tool.1"]);
        for file in ["tool.bash", "_tool", "tool.fish"] {
            assert!(directory.path().join("completions").join(file).exists(), "{file}");
        }
    }
}
