//! Test reports as JUnit XML, which every CI system reads.

use crate::text::{Detail, explanation};
use crate::v1::{Diagnostic, Test, TestReport, TestResult};

/// The report as one `testsuites` document, without colours.
pub fn junit(report: &TestReport) -> String {
    let unread: Vec<&Diagnostic> = report.diagnostics.iter().filter(|it| it.severity == "error").collect();
    let total = report.tests.len() + unread.len();
    let (failed, unknown) = (report.failed, report.unknown + unread.len());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str(&format!("<testsuites name=\"palisade\" tests=\"{total}\" failures=\"{failed}\" errors=\"{unknown}\">\n"));
    out.push_str(&format!("  <testsuite name=\"palisade test\" tests=\"{total}\" failures=\"{failed}\" errors=\"{unknown}\">\n"));
    report.tests.iter().for_each(|test| out.push_str(&case(test)));
    unread.iter().for_each(|it| out.push_str(&refused(it)));
    if !report.diagnostics.is_empty() {
        let noticed: Vec<String> =
            report.diagnostics.iter().map(|it| format!("{}[{}]: {} {}", it.severity, it.code, it.object, it.message)).collect();
        out.push_str(&format!("    <system-err>{}</system-err>\n", escaped(&noticed.join("\n"))));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(test: &Test) -> String {
    let name = match &test.name {
        Some(name) => format!("{name}: {}", test.text),
        None => test.text.clone(),
    };
    let place = &test.place;
    let (name, file) = (escaped(&name), escaped(&place.file));
    let open = format!("    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{}\"", place.line);
    let (element, why) = match test.result {
        TestResult::Passed => return format!("{open}/>\n"),
        TestResult::Failed => ("failure", &test.message),
        TestResult::Unknown => ("error", &test.message),
    };
    let details: Vec<String> = test.counterexamples.iter().map(|it| plain(&explanation(&it.explanation, Detail::Decisive))).collect();
    let message = escaped(why);
    format!("{open}>\n      <{element} message=\"{message}\">{}</{element}>\n    </testcase>\n", escaped(&details.join("\n")))
}

/// Input that could not be read is a test that could not be run.
fn refused(it: &Diagnostic) -> String {
    let place = it.place.as_ref().map(|at| format!("{}:{}:{}", at.file, at.line, at.column)).unwrap_or_default();
    let message = escaped(&format!("{place} {} {} {}", it.object, it.path, it.message));
    format!(
        "    <testcase name=\"input: {}\" classname=\"input\">\n      <error message=\"{message}\"/>\n    </testcase>\n",
        escaped(&it.code)
    )
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Text as XML takes it: markup escaped, and what XML cannot hold at all replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(it),
            it if it.is_control() || matches!(it, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            it => out.push(it),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn markup_and_control_characters_cannot_break_the_document() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}[0m\n"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}[0m\n");
    }
}
