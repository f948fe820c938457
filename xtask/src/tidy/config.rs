//! `xtask/layers.toml`: what tidy holds.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::Tree;

pub(super) const PATH: &str = "xtask/layers.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) crates: BTreeMap<String, Crate>,
    pub(super) layers: Layers,
    pub(super) purity: Purity,
    pub(super) sizes: Sizes,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crate {
    pub(super) layer: Layer,
    #[serde(default)]
    pub(super) pure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Layer {
    Number(u8),
    Tool(Tool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Tool {
    T,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layers {
    pub(super) apart: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Purity {
    pub(super) crates: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sizes {
    pub(super) file: usize,
    pub(super) exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    pub(super) path: String,
    pub(super) lines: usize,
    /// For the reader of the list; an exception without one does not parse.
    #[expect(dead_code, reason = "written for people, and required")]
    pub(super) reason: String,
}

impl Config {
    pub(super) fn load(tree: &Tree) -> Result<Config> {
        let text = tree.text(PATH).with_context(|| format!("`{PATH}` is missing"))?;
        toml::from_str(text).with_context(|| format!("cannot read `{PATH}`"))
    }

    pub(super) fn pure(&self) -> impl Iterator<Item = &str> {
        self.crates.iter().filter(|(_, entry)| entry.pure).map(|(name, _)| name.as_str())
    }

    /// Three crates, `low` pure below `high`, and `tool`; everything else as small as it can be.
    #[cfg(test)]
    pub(super) fn fixture() -> Config {
        toml::from_str(
            r#"
            [crates]
            low = { layer = 0, pure = true }
            twin = { layer = 0, pure = true }
            high = { layer = 1 }
            tool = { layer = "T" }
            [layers]
            apart = [["high", "tool"]]
            [purity]
            crates = ["tokio*", "log"]
            [sizes]
            file = 6
            exceptions = []
            "#,
        )
        .unwrap()
    }
}

/// Whether `name` is what `pattern` stands for; a star at its end stands for any rest.
pub(super) fn stands_for(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_or_an_exception_without_reason_is_refused() {
        let tree = Tree::fixture(&[(PATH, "[crates]\nx = { layer = 0, purr = true }\n")]);
        assert!(Config::load(&tree).is_err());
        assert!(toml::from_str::<Exception>("path = \"x\"\nlines = 3\n").is_err());
        assert!(toml::from_str::<Crate>("layer = \"U\"\n").is_err());
    }

    #[test]
    fn a_star_stands_for_any_rest() {
        assert!(stands_for("tokio*", "tokio") && stands_for("tokio*", "tokio-util") && stands_for("log", "log"));
        assert!(!stands_for("log", "logos") && !stands_for("tokio*", "toki"));
    }
}
