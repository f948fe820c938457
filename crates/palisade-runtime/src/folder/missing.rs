//! A path that does not exist, and what may have been meant.

use std::fs;
use std::path::Path;

use palisade_model::{Diagnostic, Severity};

use super::about;

/// `missing-file`, with the nearest folder that does exist and a name in it that looks alike.
pub(super) fn diagnose(path: &Path) -> Diagnostic {
    let mut diagnostic = about(path, Severity::Error, "missing-file", "does not exist");
    diagnostic.help = help(path).map(String::into_boxed_str);
    diagnostic
}

fn help(path: &Path) -> Option<String> {
    // `a/b/c` is looked for as `c` in `a/b`, then as `b` in `a`, then as `a` here.
    let (parent, wanted) = path.ancestors().find_map(|missing| {
        let parent = match missing.parent()? {
            here if here.as_os_str().is_empty() => Path::new("."),
            parent => parent,
        };
        parent.exists().then_some((parent, missing.file_name()?.to_string_lossy()))
    })?;
    if !parent.is_dir() {
        return Some(format!("`{}` is a file, not a folder", parent.display()));
    }
    let found = similar(parent, &wanted)?;
    Some(format!("did you mean `{}`?", parent.join(found).display()))
}

/// The name in a folder that looks most like the wanted one, if any does; the first by name when several do.
fn similar(folder: &Path, wanted: &str) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let ranked = names.map(|name| (distance(wanted, &name), name));
    ranked.filter(|(distance, _)| *distance <= limit).min().map(|(_, name)| name)
}

/// Levenshtein distance, without regard to ASCII case.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (b, pair) in to.iter().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            let replace = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            left = replace.min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
