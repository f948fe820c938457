//! What classifies packets at the links before or after the tables, and where it may send them.

use palisade_netlink::{Attributes, Odd};
use serde::{Deserialize, Serialize};

use super::links::{LinkFacts, ask, attributes, number};
use crate::error::KernelError;

const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;
const GET_FILTER: u16 = 46;
const HEADER: usize = 20;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `ffff:fff2` and `ffff:fff3`, where `clsact` keeps what sees packets come and go; `ffff:` is where `ingress` does.
const CLSACT_INGRESS: u32 = 0xffff_fff2;
const CLSACT_EGRESS: u32 = 0xffff_fff3;
const INGRESS: u32 = 0xffff_0000;

/// Something that classifies packets of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    pub link: String,
    pub side: FilterSide,
    /// `bpf`, `u32`, `flower`, `matchall` and the like.
    pub kind: String,
    /// What is done with what it matches, such as `mirred redirect eth0`. Those of a program are not known.
    pub actions: Vec<String>,
}

/// Which packets of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterSide {
    /// Those that come in by it.
    In,
    /// Those that leave by it.
    Out,
}

/// All of them.
pub(super) fn read(links: &[LinkFacts]) -> Result<Vec<Filter>, KernelError> {
    let odd = |odd: Odd| KernelError::Truncated(odd.0);
    let mut filters = Vec::new();
    for payload in ask("queueing disciplines", GET_QDISC, &[0; HEADER])? {
        let index = number(&payload, 4).map_err(odd)?;
        let handle = number(&payload, 8).map_err(odd)?;
        let kind = attributes(&payload, HEADER).and_then(|it| it.text(KIND).map(str::to_owned)).map_err(odd)?;
        // One that has gone meanwhile took its filters along.
        let Some(link) = links.iter().find(|it| it.index == index) else { continue };
        let parents = match kind.as_str() {
            "clsact" => vec![(CLSACT_INGRESS, FilterSide::In), (CLSACT_EGRESS, FilterSide::Out)],
            "ingress" => vec![(INGRESS, FilterSide::In)],
            _ if handle == 0 => Vec::new(),
            _ => classes(index, handle)?.into_iter().chain([handle]).map(|it| (it, FilterSide::Out)).collect(),
        };
        for (parent, side) in parents {
            let mut question = [[0; 4], index.to_ne_bytes(), [0; 4], parent.to_ne_bytes(), [0; 4]].concat();
            question.resize(HEADER, 0);
            for payload in ask("filters", GET_FILTER, &question)? {
                filters.extend(filter(&payload, &link.name, side, links).map_err(odd)?);
            }
        }
    }
    Ok(filters)
}

/// The classes of a queueing discipline: each may have filters of its own.
fn classes(link: u32, of: u32) -> Result<Vec<u32>, KernelError> {
    const MAJOR: u32 = 0xffff_0000;
    let mut question = [[0; 4], link.to_ne_bytes()].concat();
    question.resize(HEADER, 0);
    let all = ask("classes of traffic", GET_CLASS, &question)?;
    let handles = all.iter().map(|it| number(it, 8)).collect::<Result<Vec<u32>, Odd>>().map_err(|odd| KernelError::Truncated(odd.0))?;
    Ok(handles.into_iter().filter(|it| it & MAJOR == of & MAJOR).collect())
}

fn filter(payload: &[u8], link: &str, side: FilterSide, links: &[LinkFacts]) -> Result<Option<Filter>, Odd> {
    const U32_SELECTOR: u16 = 5;
    let from = attributes(payload, HEADER)?;
    let kind = from.text(KIND)?.to_owned();
    // Before each filter there is a message about its place among others, which does nothing.
    if from.find(OPTIONS).is_none() {
        return Ok(None);
    }
    let options = from.nest(OPTIONS)?;
    // A table of others, which does nothing itself.
    if kind == "u32" && options.find(U32_SELECTOR).is_none() {
        return Ok(None);
    }
    let actions = match actions_of(&kind) {
        Some(attribute) if options.find(attribute).is_some() => actions(&options.nest(attribute)?, links)?,
        Some(_) => Vec::new(),
        None => vec!["not known".to_owned()],
    };
    Ok(Some(Filter { link: link.to_owned(), side, kind, actions }))
}

/// Where a kind of filter keeps its actions.
fn actions_of(kind: &str) -> Option<u16> {
    match kind {
        "u32" => Some(7),
        "flower" => Some(3),
        "matchall" => Some(2),
        "bpf" | "cgroup" => Some(1),
        "basic" => Some(3),
        "fw" => Some(4),
        "route" => Some(6),
        "flow" => Some(9),
        _ => None,
    }
}

fn actions(list: &Attributes<'_>, links: &[LinkFacts]) -> Result<Vec<String>, Odd> {
    const ACTION_KIND: u16 = 1;
    const ACTION_OPTIONS: u16 = 2;
    const MIRRED_PARAMETERS: u16 = 2;
    let mut actions = Vec::new();
    for (_, item) in list.iter() {
        let action = Attributes::read(item)?;
        let kind = action.text(ACTION_KIND)?;
        if kind != "mirred" {
            actions.push(kind.to_owned());
            continue;
        }
        let parameters = action.nest(ACTION_OPTIONS)?.bytes(MIRRED_PARAMETERS)?;
        let word = match number(parameters, 20)? {
            1 | 3 => "redirect",
            2 | 4 => "mirror",
            _ => "sends",
        };
        let index = number(parameters, 24)?;
        let to = links.iter().find(|it| it.index == index).map_or_else(|| format!("link {index}"), |it| it.name.clone());
        actions.push(format!("mirred {word} {to}"));
    }
    Ok(actions)
}
