//! A difference as a page: tables alone, which need no script.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::report::diff::{Diff, Side};

use super::tables::{Table, figures, lines, operators, processes};
use crate::commands::markup::{escaped, head};

/// Rows of each table.
const ROWS_MAX: usize = 1000;

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn html(diff: &Diff) -> Result<String> {
    let mut out = head(&format!("{} – memtrace diff", diff.after.command.join(" ")));
    writeln!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n<main>")?;
    writeln!(out, "<h1>What changed</h1>\n<dl>")?;
    side(&mut out, "before", &diff.before)?;
    side(&mut out, "after", &diff.after)?;
    writeln!(out, "</dl>")?;
    for note in &diff.notes {
        writeln!(out, "<p class=\"note\">{}</p>", escaped(note))?;
    }
    for each in [figures(diff), operators(diff), lines(diff), processes(diff)] {
        table(&mut out, &each)?;
    }
    out += "</main>\n</body>\n</html>\n";
    Ok(out)
}

fn side(out: &mut String, which: &str, side: &Side) -> Result<()> {
    let (command, trace) = (escaped(&side.command.join(" ")), escaped(&side.trace));
    writeln!(out, "<dt>{which}</dt><dd><code>{command}</code> <small>{trace}</small></dd>")?;
    Ok(())
}

fn table(out: &mut String, table: &Table) -> Result<()> {
    writeln!(out, "<section>\n<h2>{}</h2>", table.title)?;
    if table.rows.is_empty() {
        writeln!(out, "<p>None allocates more or less.</p>\n</section>")?;
        return Ok(());
    }
    writeln!(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">", table.title)?;
    out.push_str("<table>\n<thead><tr>");
    for head in &table.heads {
        let head = if head.is_empty() { "share" } else { head };
        write!(out, "<th scope=\"col\">{head}</th>")?;
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for cells in table.rows.iter().take(ROWS_MAX) {
        out.push_str("<tr>");
        for (number, cell) in cells.iter().enumerate() {
            let class = match cell.trim_start_matches('~').chars().next() {
                Some('+') => " class=\"more\"",
                Some('-') if cell.len() > 1 => " class=\"less\"",
                _ => "",
            };
            let class = if number + 1 == cells.len() { " class=\"what\"" } else { class };
            write!(out, "<td{class}>{}</td>", escaped(cell))?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
    let more = table.rows.len().saturating_sub(ROWS_MAX) + table.left_out;
    if more > 0 {
        writeln!(out, "<p>{more} more are not listed.</p>")?;
    }
    writeln!(out, "</section>")?;
    Ok(())
}
