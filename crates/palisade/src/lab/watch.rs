//! Whether files have changed since they were looked at: by name, time and length.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What files looked like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Look {
    /// Looks at files, and at all that is in folders. What cannot be looked at is left out: reading it says why.
    pub(crate) fn at(names: &[String]) -> Look {
        let mut look = Look::default();
        for name in names.iter().filter(|it| *it != "-") {
            look.add(Path::new(name), 0);
        }
        look
    }

    fn add(&mut self, path: &Path, depth: usize) {
        const DEEPEST: usize = 32;
        let Ok(metadata) = std::fs::metadata(path) else { return };
        self.0.insert(path.to_owned(), (metadata.modified().ok(), metadata.len()));
        if metadata.is_dir() && depth < DEEPEST {
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                self.add(&entry.path(), depth + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_a_longer_and_a_missing_file_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let names = [folder.path().display().to_string()];
        let mut looks = vec![Look::at(&names)];
        let file = folder.path().join("a.yaml");
        for step in [|it: &Path| std::fs::write(it, "a"), |it: &Path| std::fs::write(it, "ab"), |it: &Path| std::fs::remove_file(it)] {
            step(&file).unwrap();
            looks.push(Look::at(&names));
        }
        assert!(looks.windows(2).all(|it| it[0] != it[1]), "{looks:?}");
        assert_eq!(Look::at(&names), Look::at(&names));
    }
}
