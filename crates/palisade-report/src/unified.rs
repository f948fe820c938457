//! Unified diff of two versions of a text.

use similar::TextDiff;

/// Differences between two versions of a text in the form that `patch` reads, each version with its name; empty if the versions are equal.
///
/// Only a line feed ends a line, as for `patch`. `TextDiff::from_lines` would also split at a lone carriage return.
pub fn unified_diff(old: (&str, &str), new: (&str, &str)) -> String {
    let ((old_name, old), (new_name, new)) = (old, new);
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&lines(old), &lines(new));
    diff.unified_diff().header(old_name, new_name).to_string()
}

#[cfg(test)]
mod tests {
    use super::unified_diff;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified_diff(("f", old), ("g", new)), expected);
    }

    #[test]
    fn equal_texts_have_no_difference() {
        check("a\nb\n", "a\nb\n", "");
    }

    #[test]
    fn a_change_is_printed_with_three_lines_on_each_side() {
        check("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n", "--- f\n+++ g\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
        check("", "x\n", "--- f\n+++ g\n@@ -0,0 +1 @@\n+x\n");
        check("a: []\n", "a:\n- b\n", "--- f\n+++ g\n@@ -1 +1,2 @@\n-a: []\n+a:\n+- b\n");
    }

    #[test]
    fn a_carriage_return_within_a_line_does_not_end_the_line() {
        check("a\rb\nc\r\n", "a\rx\nc\r\n", "--- f\n+++ g\n@@ -1,2 +1,2 @@\n-a\rb\n+a\rx\n c\r\n");
    }

    #[test]
    fn a_missing_last_newline_is_marked() {
        check("a", "a\nb", "--- f\n+++ g\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n");
    }
}
