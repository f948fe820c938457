//! What a kernel holds, as a file: the bytes that it told of its tables, and what else was read, as JSON.

use std::collections::BTreeMap;

use palisade_kernel::{Environment, FramesDump};
use palisade_nft::Dump;
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
    table: Option<Table>,
    frames: Frames,
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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frames {
    tables: Vec<String>,
    chains: Vec<String>,
    rules: Vec<String>,
}

pub(super) fn write(held: &Held, node: &str) -> Result<String, FileError> {
    let file = File {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        node: node.to_owned(),
        table: held.table.as_ref().map(|it| Table {
            table: digits(&it.table),
            chains: all_digits(&it.chains),
            sets: all_digits(&it.sets),
            elements: it.elements.iter().map(|(name, it)| (name.clone(), all_digits(it))).collect(),
            rules: all_digits(&it.rules),
        }),
        frames: Frames {
            tables: all_digits(&held.frames.tables),
            chains: all_digits(&held.frames.chains),
            rules: all_digits(&held.frames.rules),
        },
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
    let table = file.table.map(|it| -> Result<Dump, FileError> {
        let elements = it.elements.into_iter().map(|(name, it)| Ok((name, all_bytes(&it)?)));
        Ok(Dump {
            table: bytes(&it.table)?,
            chains: all_bytes(&it.chains)?,
            sets: all_bytes(&it.sets)?,
            elements: elements.collect::<Result<_, FileError>>()?,
            rules: all_bytes(&it.rules)?,
        })
    });
    let frames = FramesDump {
        tables: all_bytes(&file.frames.tables)?,
        chains: all_bytes(&file.frames.chains)?,
        rules: all_bytes(&file.frames.rules)?,
    };
    Ok((Held { table: table.transpose()?, frames, environment: file.environment }, file.node))
}

fn digits(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |it: u8| DIGITS.get(usize::from(it)).copied().unwrap_or('0');
    bytes.iter().flat_map(|it| [digit(it >> 4), digit(it & 15)]).collect()
}

fn all_digits(all: &[Vec<u8>]) -> Vec<String> {
    all.iter().map(|it| digits(it)).collect()
}

fn bytes(text: &str) -> Result<Vec<u8>, FileError> {
    let odd = || FileError::Digits(text.chars().take(20).collect());
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|it| it.len() == 2 && it.chars().all(|it| it.is_ascii_hexdigit()));
        pair.and_then(|it| u8::from_str_radix(it, 16).ok()).ok_or_else(odd)
    });
    pairs.collect()
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
        let held = Held { table: Some(table), frames: FramesDump { tables: vec![vec![9]], ..FramesDump::default() }, ..Held::default() };
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
        for odd in ["0", "0g", "+1", "ä1"] {
            assert_eq!(bytes(odd).unwrap_err().to_string(), format!("`{odd}` is not written in pairs of hexadecimal digits"));
        }
    }
}
