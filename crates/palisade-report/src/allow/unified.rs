//! Two texts as a unified diff, by the shortest way from one to the other (Myers 1986).

use std::collections::HashMap;

/// Lines around a change that are shown with it.
const AROUND: usize = 3;

/// What becomes of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    Comes,
}

/// The difference, as `patch` takes it; empty if there is none.
pub(super) fn unified(file: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let script = script(&old, &new);
    let changes: Vec<usize> = script.iter().enumerate().filter(|(_, it)| it.0 != Fate::Stays).map(|(at, _)| at).collect();
    let mut out = String::new();
    let mut at = 0;
    while let Some(first) = changes.get(at) {
        let mut last = *first;
        while let Some(next) = changes.get(at).filter(|it| **it <= last + 2 * AROUND + 1) {
            last = *next;
            at += 1;
        }
        let (from, to) = (first.saturating_sub(AROUND), (last + AROUND + 1).min(script.len()));
        let count = |till: &[(Fate, &str)], without: Fate| till.iter().filter(|it| it.0 != without).count();
        let (before, hunk) = (script.get(..from).unwrap_or_default(), script.get(from..to).unwrap_or_default());
        let (olds, news) = (count(hunk, Fate::Comes), count(hunk, Fate::Goes));
        let (old_at, new_at) = (count(before, Fate::Comes) + usize::from(olds > 0), count(before, Fate::Goes) + usize::from(news > 0));
        out.push_str(&format!("@@ -{old_at},{olds} +{new_at},{news} @@\n"));
        hunk.iter().for_each(|(fate, line)| push(&mut out, *fate, line));
    }
    if out.is_empty() { out } else { format!("--- {file}\n+++ {file}\n{out}") }
}

fn push(out: &mut String, fate: Fate, line: &str) {
    out.push(match fate {
        Fate::Stays => ' ',
        Fate::Goes => '-',
        Fate::Comes => '+',
    });
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// What becomes of each line, in order.
fn script<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Fate, &'t str)> {
    let rounds = rounds(old, new);
    let (mut x, mut y) = (old.len(), new.len());
    let mut script: Vec<(Fate, &str)> = Vec::new();
    let stay = |script: &mut Vec<(Fate, &'t str)>, x: usize| script.extend(old.get(x).map(|it| (Fate::Stays, *it)));
    for reached in rounds.iter().rev() {
        let diagonal = signed(x) - signed(y);
        let down = is_down(reached, diagonal);
        let before = reached.get(&if down { diagonal + 1 } else { diagonal - 1 }).copied().unwrap_or(0);
        // Where this round began, after its one change.
        let start = if down { before } else { before + 1 };
        while x > start {
            x -= 1;
            y -= 1;
            stay(&mut script, x);
        }
        if down {
            y -= 1;
            script.extend(new.get(y).map(|it| (Fate::Comes, *it)));
        } else {
            x -= 1;
            script.extend(old.get(x).map(|it| (Fate::Goes, *it)));
        }
    }
    while x > 0 {
        x -= 1;
        stay(&mut script, x);
    }
    script.reverse();
    script
}

/// Before each change: how far in the old text every diagonal was reached.
fn rounds(old: &[&str], new: &[&str]) -> Vec<HashMap<i64, usize>> {
    let slide = |mut x: usize, diagonal: i64| {
        while old.get(x).is_some() && old.get(x) == row(x, diagonal).and_then(|y| new.get(y)) {
            x += 1;
        }
        x
    };
    let goal = (old.len(), signed(old.len()) - signed(new.len()));
    let mut reached = HashMap::from([(0, slide(0, 0))]);
    let mut rounds = Vec::new();
    for changes in 1..=signed(old.len() + new.len()) {
        if reached.get(&goal.1) == Some(&goal.0) {
            break;
        }
        let mut next = HashMap::new();
        for diagonal in (-changes..=changes).step_by(2) {
            let from = |it: i64| reached.get(&it).copied();
            let x = if is_down(&reached, diagonal) { from(diagonal + 1) } else { from(diagonal - 1).map(|it| it + 1) };
            let inside = |x: &usize| *x <= old.len() && row(*x, diagonal).is_some_and(|y| y <= new.len());
            next.extend(x.filter(inside).map(|x| (diagonal, slide(x, diagonal))));
        }
        rounds.push(std::mem::replace(&mut reached, next));
    }
    rounds
}

/// Whether a diagonal is better reached by a line that comes than by one that goes.
fn is_down(reached: &HashMap<i64, usize>, diagonal: i64) -> bool {
    match (reached.get(&(diagonal - 1)), reached.get(&(diagonal + 1))) {
        (Some(left), Some(above)) => left < above,
        (None, Some(_)) => true,
        (Some(_) | None, None) => false,
    }
}

fn row(x: usize, diagonal: i64) -> Option<usize> {
    usize::try_from(signed(x) - diagonal).ok()
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::unified;

    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified("f", old, new), expected);
    }

    #[test]
    fn what_is_equal_has_no_difference() {
        check("a\nb\n", "a\nb\n", "");
    }

    #[test]
    fn lines_come_with_what_stands_around_them() {
        check("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n", "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n");
        check("", "x\n", "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\n");
        check("a: []\n", "a:\n- b\n", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a: []\n+a:\n+- b\n");
    }

    #[test]
    fn changes_far_from_each_other_stand_apart() {
        let old: String = (0..30).map(|it| format!("{it}\n")).collect();
        let new = old.replace("5\n", "x\n5\n").replace("20\n", "20\ny\n");
        let new = new.replacen("1x\n5\n", "15\n", 1).replacen("2x\n5\n", "25\n", 1);
        let expected = "--- f\n+++ f\n@@ -3,6 +3,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n@@ -19,6 +20,7 @@\n 18\n 19\n 20\n+y\n 21\n 22\n 23\n";
        check(&old, &new, expected);
    }

    #[test]
    fn a_missing_last_newline_is_said() {
        check("a", "a\nb", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n");
    }
}
