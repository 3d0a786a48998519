//! A JUnit report: services show it as tests.

use anyhow::Result;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::super::outcome::Checked;
use crate::terminal::clean;

/// A test case for each comparison, and for each budget that is of nothing.
pub fn report(checked: &Checked) -> Result<String> {
    let exceeded = checked.exceeded().count() + checked.unmatched.len();
    let all = checked.outcomes.len() + checked.unmatched.len();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suite = writer.create_element("testsuite").with_attribute(("name", "memtrace check"));
    let suite = suite.with_attribute(("tests", all.to_string().as_str()));
    let suite = suite.with_attribute(("failures", exceeded.to_string().as_str()));
    suite.write_inner_content(|writer| {
        for outcome in &checked.outcomes {
            let name = format!("{} of {}", outcome.figure, clean(&outcome.of));
            case(writer, &name, outcome.exceeded.then(|| outcome.sentence()))?;
        }
        for sentence in &checked.unmatched {
            case(writer, &clean(sentence), Some(clean(sentence)))?;
        }
        Ok(())
    })?;
    Ok(String::from_utf8(writer.into_inner())? + "\n")
}

fn case(writer: &mut Writer<Vec<u8>>, name: &str, failure: Option<String>) -> std::io::Result<()> {
    let case = writer.create_element("testcase").with_attribute(("classname", "memory"));
    let case = case.with_attribute(("name", name));
    match failure {
        None => case.write_empty().map(drop),
        Some(text) => case
            .write_inner_content(|writer| {
                let failure = writer.create_element("failure").with_attribute(("message", text.as_str()));
                failure.write_text_content(BytesText::new(&text)).map(drop)
            })
            .map(drop),
    }
}
