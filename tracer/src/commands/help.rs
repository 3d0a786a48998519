//! What `--help` shows: subcommands by what they are for, and two examples; and what a word that is
//! no program may have meant.

use std::ffi::OsString;
use std::fmt::Write;

use clap::Command;
use clap::builder::styling::{AnsiColor, Styles};

/// Subcommands by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Record", &["record", "attach", "top", "recover"]),
    ("Look at a trace", &["report", "flamegraph", "plot", "diff", "check", "export"]),
    ("Predict and plan", &["sweep", "fit", "merge", "predict", "recommend", "plan", "place", "bound"]),
    ("Set up", &["doctor", "completions"]),
];

const EXAMPLES: [(&str, &str); 2] = [
    ("memtrace python program.py", "record a program and print a summary"),
    ("memtrace flamegraph TRACE -o peak.svg", "draw what was live at its peak"),
];

/// Words this similar (Jaro) are taken to be slips of the keyboard.
const SIMILAR: f64 = 0.8;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::BrightBlack.on_default());

/// The command line with its help.
pub fn dress(command: Command) -> Command {
    let template = template(&command);
    // They are in the template.
    command
        .styles(STYLES)
        .help_template(template)
        .mut_subcommands(|each| each.hide(true))
        .mut_arg("command", |each| each.hide(true))
}

fn template(command: &Command) -> String {
    let header = STYLES.get_header();
    let literal = STYLES.get_literal();
    let mut text =
        format!("{{about-with-newline}}\n{header}Usage:{header:#} memtrace [OPTIONS] COMMAND [ARG]...\n");
    text += "       memtrace SUBCOMMAND ...\n";
    let _ = writeln!(text, "\n{header}Examples:{header:#}");
    for (example, does) in EXAMPLES {
        let _ = writeln!(text, "  {literal}{example:<39}{literal:#} {does}");
    }
    for (group, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
    }
    text + "\n{all-args}\n\nThe first word that is no option and no subcommand begins the command; `--` may stand before it.\n"
}

/// True if the command stands behind `--`: it is a program, whatever its name.
pub fn is_behind_dashes(command: &[OsString]) -> bool {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let before = arguments.len().checked_sub(command.len() + 1);
    before.and_then(|before| arguments.get(before)).is_some_and(|before| before == "--")
}

/// What the user may have meant by a command that no program is called, in a sentence.
pub fn suggestion(command: &[OsString], subcommands: &Command) -> Option<String> {
    let word = command.first()?.to_str().filter(|word| !word.contains('/'))?;
    let names = subcommands.get_subcommands().filter(|each| !each.is_hide_set()).map(Command::get_name);
    let similar = names.map(|name| (strsim::jaro(word, name), name));
    let (similarity, name) = similar.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if word == name {
        return Some(format!("{name} is a subcommand; write it before its options: memtrace {name} ..."));
    }
    (similarity > SIMILAR)
        .then(|| format!("there is no program and no subcommand {word:?}; did you mean memtrace {name}?"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let command = crate::commands::Cli::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|each| !each.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn slips_are_recognised_and_programs_are_not() {
        let command = crate::commands::Cli::command();
        let meant = |word: &str| suggestion(&[word.into()], &command);
        for (word, name) in
            [("repot", "report"), ("flamgraph", "flamegraph"), ("predit", "predict"), ("swep", "sweep")]
        {
            assert!(
                meant(word).is_some_and(|text| text.ends_with(&format!("did you mean memtrace {name}?"))),
                "{word}"
            );
        }
        assert!(meant("report").is_some_and(|text| text.contains("before its options")));
        for word in ["python", "./repot", "train.py", "mpirun"] {
            assert_eq!(meant(word), None, "{word}");
        }
    }
}
