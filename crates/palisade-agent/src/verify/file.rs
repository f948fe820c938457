//! What a kernel holds, as a file: the bytes that it told of its tables, and what else was read, as JSON.

use std::collections::BTreeMap;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use palisade_kernel::Environment;
use palisade_nft::{self as nft, Dump};
use serde::{Deserialize, Serialize};

use crate::verify::Held;

const API_VERSION: &str = "palisade.dev/v1";
const KIND: &str = "KernelDump";

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("this is no dump: {0}")]
    Json(#[from] serde_json::Error),
    #[error("this is `{api_version}` `{kind}`, and a dump is `{API_VERSION}` `{KIND}`")]
    Other { api_version: String, kind: String },
    #[error("`{0}` is not written in pairs of hexadecimal digits")]
    Digits(String),
    #[error("`{0}` is no table of ours")]
    Table(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    api_version: String,
    kind: String,
    node: String,
    /// By family and name, such as `inet palisade`.
    tables: BTreeMap<String, Table>,
    environment: Environment,
}

/// Answers of netlink without their header, in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    table: String,
    chains: Vec<String>,
    sets: Vec<String>,
    elements: BTreeMap<String, Vec<String>>,
    rules: Vec<String>,
}

impl Table {
    fn of(dump: &Dump) -> Table {
        Table {
            table: HEXLOWER.encode(&dump.table),
            chains: all_digits(&dump.chains),
            sets: all_digits(&dump.sets),
            elements: dump.elements.iter().map(|(name, it)| (name.clone(), all_digits(it))).collect(),
            rules: all_digits(&dump.rules),
        }
    }

    fn dump(self) -> Result<Dump, FileError> {
        let elements = self.elements.into_iter().map(|(name, it)| Ok((name, all_bytes(&it)?)));
        Ok(Dump {
            table: bytes(&self.table)?,
            chains: all_bytes(&self.chains)?,
            sets: all_bytes(&self.sets)?,
            elements: elements.collect::<Result<_, FileError>>()?,
            rules: all_bytes(&self.rules)?,
        })
    }
}

pub(super) fn write(held: &Held, node: &str) -> Result<String, FileError> {
    let file = File {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        node: node.to_owned(),
        tables: held.tables.iter().map(|(table, dump)| (table.to_string(), Table::of(dump))).collect(),
        environment: held.environment.clone(),
    };
    Ok(serde_json::to_string_pretty(&file)? + "\n")
}

pub(super) fn read(text: &str) -> Result<(Held, String), FileError> {
    let Head { api_version, kind } = serde_json::from_str(text)?;
    if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        return Err(FileError::Other { api_version, kind });
    }
    let file: File = serde_json::from_str(text)?;
    let mut tables = BTreeMap::new();
    for (name, it) in file.tables {
        let table = nft::Table::EVERY.into_iter().find(|it| it.to_string() == name).ok_or(FileError::Table(name))?;
        tables.insert(table, it.dump()?);
    }
    Ok((Held { tables, environment: file.environment }, file.node))
}

fn all_digits(all: &[Vec<u8>]) -> Vec<String> {
    all.iter().map(|it| HEXLOWER.encode(it)).collect()
}

fn bytes(text: &str) -> Result<Vec<u8>, FileError> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| FileError::Digits(text.chars().take(20).collect()))
}

fn all_bytes(all: &[String]) -> Result<Vec<Vec<u8>>, FileError> {
    all.iter().map(|it| bytes(it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let elements = BTreeMap::from([("class4".to_owned(), vec![vec![0, 255, 16]])]);
        let table = Dump { table: vec![1, 2, 171], chains: vec![vec![3]], sets: vec![vec![]], elements, rules: vec![vec![4], vec![5]] };
        let tables = nft::Table::EVERY.into_iter().zip(1..).map(|(it, number)| (it, Dump { rules: vec![vec![number]], ..table.clone() }));
        let held = Held { tables: tables.collect(), ..Held::default() };
        let text = write(&held, "worker-1").unwrap();
        assert!(text.contains("\"0102ab\""), "{text}");
        assert_eq!(read(&text).unwrap(), (held, "worker-1".to_owned()));
    }

    #[test]
    fn what_is_no_dump_is_refused() {
        let refused = |text: &str| read(text).unwrap_err().to_string();
        assert!(refused("{").starts_with("this is no dump: "));
        let other = refused("{\"apiVersion\": \"palisade.dev/v2\", \"kind\": \"KernelDump\"}");
        assert_eq!(other, "this is `palisade.dev/v2` `KernelDump`, and a dump is `palisade.dev/v1` `KernelDump`");
        let head = "\"apiVersion\": \"palisade.dev/v1\", \"kind\": \"KernelDump\", \"node\": \"a\"";
        assert!(refused(&format!("{{{head}}}")).contains("missing field `tables`"));
        for odd in ["0", "0g", "+1", "ä1"] {
            assert_eq!(bytes(odd).unwrap_err().to_string(), format!("`{odd}` is not written in pairs of hexadecimal digits"));
        }
    }
}
