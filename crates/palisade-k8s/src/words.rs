//! Lists of names in messages.

/// Names in backticks, the first eight of them.
pub(crate) fn quoted(names: &[Box<str>]) -> String {
    let shown: Vec<String> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
