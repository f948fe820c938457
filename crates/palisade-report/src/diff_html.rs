//! A difference as one page: nothing is loaded, no script is needed, and what is long is folded.

use crate::diff::{connections_said, verb_said, within_said};
use crate::junit::escaped;
use crate::text::plain;
use crate::v1::{Diff, DiffBecause, DiffCause, DiffChange, DiffEnds, DiffVersion};

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Connections that change</title>
<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #ffffff; --faint: #5f6670; --line: #d9dde2; --opened: #14702f; --closed: #b3261e; --changed: #8a5a00; --other: #0b5c8a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #16181b; --faint: #9aa2ac; --line: #33383f; --opened: #6fce86; --closed: #ff8a80; --changed: #e8b450; --other: #7cc3ee; } }
body { margin: 2rem auto; max-width: 75rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.verb { display: inline-block; min-width: 5.5em; font-weight: 600; }
.opened { color: var(--opened); } .closed { color: var(--closed); } .changed { color: var(--changed); } .added, .removed { color: var(--other); }
.conn, .place { font-family: ui-monospace, monospace; font-size: .9em; }
.place, .note { color: var(--faint); }
ul { margin: .25rem 0 .5rem; overflow-wrap: anywhere; }
</style>
</head>
<body>
"#;

/// All that differs, as a page.
pub fn diff_html(it: &Diff) -> String {
    let mut out = String::from(HEAD);
    out.push_str("<h1>Connections that change</h1>\n");
    for note in &it.qualifications {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", escaped(note)));
    }
    if it.changes.is_empty() {
        out.push_str("<p>No connection changes.</p>\n");
    }
    for (title, names) in [("New workloads", &it.new_workloads), ("Removed workloads", &it.removed_workloads)] {
        if !names.is_empty() {
            let all: String = names.iter().map(|it| format!("<li>{}</li>", escaped(it))).collect();
            out.push_str(&format!("<details><summary>{title}: {}</summary><ul>{all}</ul></details>\n", names.len()));
        }
    }
    let fold = if it.changes.len() <= UNFOLDED { " open" } else { "" };
    for change in &it.changes {
        block(&mut out, change, fold);
    }
    for it in &it.diagnostics {
        let version = match it.version {
            DiffVersion::Old => "old version",
            DiffVersion::New => "new version",
        };
        let (severity, message) = (&it.diagnostic.severity, &it.diagnostic.message);
        out.push_str(&format!("<p class=\"note\">{version}: {}: {}</p>\n", escaped(severity), escaped(message)));
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// So many changes are shown with their reasons; more are folded.
const UNFOLDED: usize = 40;

fn block(out: &mut String, it: &DiffChange, fold: &str) {
    let verb = verb_said(it.change);
    let ends = format!("{} → {}{}", it.from.name, it.to.name, within_said(it.within));
    out.push_str(&format!(
        "<details{fold}><summary><span class=\"verb {verb}\">{verb}</span> {} <span class=\"conn\">{}</span></summary>\n",
        escaped(&ends),
        escaped(&connections_said(it))
    ));
    out.push_str("<ul>\n");
    it.because.iter().for_each(|it| cause(out, it));
    out.push_str("</ul>\n");
    members(out, "From", &it.from);
    members(out, "To", &it.to);
    out.push_str("</details>\n");
}

fn cause(out: &mut String, it: &DiffBecause) {
    let said = |when: &str, cause: &DiffCause| {
        let place =
            cause.place.as_ref().map(|it| format!(" <span class=\"place\">{}</span>", escaped(&format!("{}:{}", it.file, it.line))));
        format!("{when} {}: {}{}", plain(cause.verdict), escaped(&cause.sentence), place.unwrap_or_default())
    };
    let before = it.before.as_ref().map(|it| said("was", it));
    let after = it.after.as_ref().map(|it| said("now", it));
    let both: Vec<String> = before.into_iter().chain(after).collect();
    out.push_str(&format!("<li>{}: {}</li>\n", escaped(&it.direction), both.join("<br>")));
}

fn members(out: &mut String, title: &str, it: &DiffEnds) {
    let workloads = it.workloads.iter().map(|it| if it.only_some_pods { format!("some pods of {}", it.name) } else { it.name.clone() });
    let ranges = it.addresses.iter().map(|[first, last]| format!("{first}-{last}[External]"));
    let all: Vec<String> = workloads.chain(ranges).collect();
    let listed: String = all.iter().map(|it| format!("<li>{}</li>", escaped(it))).collect();
    out.push_str(&format!("<details><summary>{title}: {}</summary><ul>{listed}</ul></details>\n", all.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_read_is_markup() {
        assert_eq!(escaped(r#"<b a="1" c='2'>&"#), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
    }
}
