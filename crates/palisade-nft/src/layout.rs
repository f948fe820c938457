//! Which version of our own layout a table is in: what chains, maps and numbers it has and how they lead to each other.
//!
//! The mark stands in the comment of the table, so that the kernel keeps it with what it is about and `nft list` shows it. A table of another layout,
//! or of none, is never changed in place: what a chain of that name meant there is not known here.

use std::fmt;

/// What `nft list` shows whoever wonders where the table comes from.
const COMMENT: &str = "Kubernetes network policy, written by palisade (layout ";

/// The layout of a table, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    Version(u32),
    /// It says nothing, or nothing of ours.
    Unmarked,
}

impl Layout {
    /// The one that `lower` builds. Whoever changes what `plan` or `decode` would misread in a table of before counts it up.
    pub const CURRENT: Layout = Layout::Version(1);

    /// What the table is written with.
    pub(crate) fn comment(self) -> Option<String> {
        match self {
            Layout::Version(version) => Some(format!("{COMMENT}{version})")),
            Layout::Unmarked => None,
        }
    }

    /// What the comment of a table says.
    pub(crate) fn of_comment(comment: &str) -> Layout {
        let version = comment.strip_prefix(COMMENT).and_then(|it| it.strip_suffix(')')).and_then(|it| it.parse().ok());
        // `+1` and `01` are numbers too, but not as they are written.
        let version = version.map(Layout::Version).filter(|it| it.comment().as_deref() == Some(comment));
        version.unwrap_or(Layout::Unmarked)
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::CURRENT
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Version(version) => write!(f, "layout {version}"),
            Layout::Unmarked => write!(f, "no layout that it names"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_says_its_layout_and_no_other_does() {
        for layout in [Layout::Version(0), Layout::CURRENT, Layout::Version(u32::MAX)] {
            assert_eq!(Layout::of_comment(&layout.comment().unwrap()), layout);
        }
        assert_eq!(Layout::CURRENT.comment().unwrap(), "Kubernetes network policy, written by palisade (layout 1)");
        let others = ["", "mine", "Kubernetes network policy, written by palisade", "layout 1"];
        let numbers = ["01", "+1", "", "-1", "4294967296", "1) "];
        let near = numbers.map(|it| format!("{COMMENT}{it})"));
        for other in others.into_iter().chain(near.iter().map(String::as_str)) {
            assert_eq!(Layout::of_comment(other), Layout::Unmarked, "{other}");
        }
    }
}
