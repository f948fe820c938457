//! Findings of lint as SARIF 2.1.0, for code hosts.

use serde_json::{Value, json};

use crate::v1::{Diagnostic, LintFinding, LintPlace, LintReport, LintRule, Mark, Place};

/// A log of one run. If objects were refused there are no findings: the diagnostics are the results, by their codes.
pub fn sarif(report: &LintReport, rules: &[LintRule], version: &str) -> Value {
    let described: Vec<Value> = rules.iter().map(rule).collect();
    let refused = report.diagnostics.iter().any(|it| it.severity == "error");
    let results: Vec<Value> = match refused {
        true => report.diagnostics.iter().map(|it| result(&as_finding(it), rules)).collect(),
        false => report.findings.iter().map(|it| result(it, rules)).collect(),
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "palisade", "informationUri": "https://palisade.dev", "version": version, "rules": described}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(it: &LintRule) -> Value {
    json!({
        "id": it.name,
        "shortDescription": {"text": it.summary},
        "fullDescription": {"text": format!("{} {}", it.summary, it.why)},
        "help": {"text": it.fix},
        "defaultConfiguration": {"level": it.severity},
    })
}

fn result(it: &LintFinding, rules: &[LintRule]) -> Value {
    let help = it.help.as_deref().map(|help| format!("; {help}")).unwrap_or_default();
    let mut result = json!({
        "ruleId": it.rule,
        "level": it.severity,
        "message": {"text": format!("{}: {}{help}", it.at.object, it.message)},
        "locations": [location(&it.at)],
    });
    if let (Some(index), Some(fields)) = (rules.iter().position(|rule| rule.name == it.rule), result.as_object_mut()) {
        fields.insert("ruleIndex".to_owned(), json!(index));
    }
    if let (false, Some(fields)) = (it.further.is_empty(), result.as_object_mut()) {
        fields.insert("relatedLocations".to_owned(), it.further.iter().map(location).collect());
    }
    result
}

fn as_finding(it: &Diagnostic) -> LintFinding {
    let mark = |place: &Place| Mark {
        place: place.clone(),
        path: it.path.clone(),
        line: String::new(),
        start: 0,
        end: 0,
        label: it.message.clone(),
    };
    let file = || it.place.as_ref().map(|it| it.file.clone()).unwrap_or_default();
    let object = if it.object.is_empty() { file() } else { it.object.clone() };
    LintFinding {
        rule: it.code.clone(),
        severity: it.severity.clone(),
        message: it.message.clone(),
        at: LintPlace { object, path: it.path.clone(), mark: it.place.as_ref().map(mark) },
        help: it.help.clone(),
        further: Vec::new(),
        fixable: false,
    }
}

/// What came from no text is known by its name alone.
fn location(it: &LintPlace) -> Value {
    let name = if it.path.is_empty() { it.object.clone() } else { format!("{} {}", it.object, it.path) };
    let logical = json!([{"fullyQualifiedName": name, "kind": "object"}]);
    match &it.mark {
        Some(mark) => json!({"physicalLocation": physical(mark), "logicalLocations": logical, "message": {"text": mark.label}}),
        None => json!({"logicalLocations": logical}),
    }
}

fn physical(mark: &Mark) -> Value {
    if mark.line.is_empty() {
        // A diagnostic knows its place, but not the text there.
        let region = json!({"startLine": mark.place.line, "startColumn": mark.place.column});
        return json!({"artifactLocation": {"uri": uri(&mark.place.file)}, "region": region});
    }
    let marked = mark.line.get(mark.start..mark.end).unwrap_or("").chars().count();
    json!({
        "artifactLocation": {"uri": uri(&mark.place.file)},
        "region": {
            "startLine": mark.place.line,
            "startColumn": mark.place.column,
            "endColumn": mark.place.column + marked.max(1),
            "snippet": {"text": mark.line},
        },
    })
}

/// A path as the reference that SARIF wants: what a URI cannot hold is written by its bytes.
fn uri(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let written = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = file.bytes().map(written).collect();
    if path.starts_with('/') { format!("file://{path}") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_reference() {
        assert_eq!(uri("shop/a b.yaml"), "shop/a%20b.yaml");
        assert_eq!(uri("/tmp/ä.yaml"), "file:///tmp/%C3%A4.yaml");
    }
}
