//! `palisade explain`.

use anyhow::{Result, anyhow, bail};
use palisade_analysis::{Asked, Party, PortAsked};
use palisade_model::{Place, Protocol};
use palisade_report::{explained, text, v1};

use crate::cli::{ExplainArgs, InputArgs, Output};
use crate::input::{self, Input};
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &ExplainArgs) -> Result<Outcome> {
    let asked = asked(args)?;
    within_namespace(&args.input, &[("`--from`", &asked.from), ("`--to`", &asked.to)])?;
    let input = input::read(&args.input)?;
    strangers(&args.input, &asked, &input)?;
    let explanation = match explain(&input, args, &asked) {
        Ok(explanation) => explanation,
        Err(error) => {
            let limits: String = input.unavailable.iter().map(|it| format!("note: {it}\n")).collect();
            let stderr = format!("{}{limits}error: {error}\n", input.noticed());
            return Ok(Outcome::cannot_tell(stderr));
        }
    };
    let exit = match (explanation.trusted, explanation.verdict) {
        (true, v1::Verdict::Allowed) => Exit::Yes,
        (true, v1::Verdict::Denied) => Exit::No,
        (true, v1::Verdict::DependsOnDns | v1::Verdict::Mixed | v1::Verdict::NoEndpoints | v1::Verdict::Unknown) | (false, _) => {
            Exit::CannotTell
        }
    };
    let detail = if args.verbose { text::Detail::Everything } else { text::Detail::Decisive };
    Ok(match args.output {
        Output::Text => {
            Outcome { stdout: text::explanation(&explanation, detail), stderr: text::diagnostics(&explanation.diagnostics), exit }
        }
        Output::Json => Outcome { stdout: serde_json::to_string_pretty(&explanation)? + "\n", stderr: String::new(), exit },
    })
}

fn asked(args: &ExplainArgs) -> Result<Asked> {
    let protocol = Protocol::parse(&args.protocol);
    let Some(protocol) = protocol else { bail!("`--protocol {}`: tcp, udp, sctp or icmp", args.protocol) };
    let port = port_option(protocol, args.port.as_deref())?;
    let end = |flag: &str, text: &str| Party::parse(text).map_err(|error| anyhow!("`{flag}`: {error}"));
    Ok(Asked { from: end("--from", &args.from)?, to: end("--to", &args.to)?, protocol, port })
}

/// With `-n` only one namespace is listed: an end elsewhere has policies that would not be asked.
pub(crate) fn within_namespace(args: &InputArgs, ends: &[(&str, &Party)]) -> Result<()> {
    let Some(listed) = &args.namespace else { return Ok(()) };
    for (name, party) in ends {
        let elsewhere = party.namespace().is_some_and(|it| it != listed);
        if elsewhere {
            bail!("{name} is outside of namespace `{listed}`, and with `-n` no policies of other namespaces are read");
        }
    }
    Ok(())
}

/// With `-n` an address may be that of a pod that was not listed.
pub(crate) fn strangers(args: &InputArgs, asked: &Asked, input: &Input) -> Result<()> {
    let Some(listed) = &args.namespace else { return Ok(()) };
    for party in [&asked.from, &asked.to] {
        let Party::Address(address) = party else { continue };
        if input.snapshot.model.place_of(*address) == Place::Outside {
            bail!("{address} belongs to nothing in namespace `{listed}`, and with `-n` it may be a pod of another one");
        }
    }
    Ok(())
}

/// What `--port` says for a protocol.
pub(crate) fn port_option(protocol: Protocol, port: Option<&str>) -> Result<PortAsked> {
    let written = port.map_or("--port".to_owned(), |it| format!("--port {it}"));
    if let Some((protocol, port)) = port.and_then(with_protocol) {
        bail!("`{written}`: write `--protocol {protocol} --port {port}`");
    }
    port_of(&written, protocol, port)
}

/// `udp/53` or `53/udp`, as they are written elsewhere.
fn with_protocol(text: &str) -> Option<(Protocol, &str)> {
    let (first, last) = text.split_once('/')?;
    Protocol::parse(first).map(|it| (it, last)).or_else(|| Protocol::parse(last).map(|it| (it, first)))
}

/// The port of a protocol, as it was written in these words.
pub(crate) fn port_of(written: &str, protocol: Protocol, port: Option<&str>) -> Result<PortAsked> {
    let text = match (protocol, port) {
        (Protocol::Port(_), None) => bail!("`{written}` is missing; {protocol} has ports, and policies tell them apart"),
        (Protocol::Port(_), Some(text)) => text,
        (Protocol::Icmp | Protocol::Other(_), None) => return Ok(PortAsked::None),
        (Protocol::Icmp | Protocol::Other(_), Some(_)) => bail!("`{written}`: {protocol} has no ports"),
    };
    let number = text.bytes().all(|it| it.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(0) => bail!("`{written}`: ports are 1 to 65535"),
        Ok(port) if number => Ok(PortAsked::Number(port)),
        Err(_) if number || text.is_empty() || text.starts_with('-') => bail!("`{written}`: ports are 1 to 65535, or a name"),
        Ok(_) | Err(_) => Ok(PortAsked::Name(text.to_owned())),
    }
}

fn explain(input: &Input, args: &ExplainArgs, asked: &Asked) -> Result<v1::Explanation, String> {
    let explanation = palisade_analysis::explain(&input.snapshot.model, asked)?;
    let question =
        v1::Question { from: args.from.clone(), to: args.to.clone(), protocol: asked.protocol.to_string(), port: args.port.clone() };
    let Input { snapshot, unavailable } = input;
    Ok(explained(question, &explanation, &snapshot.sources, &snapshot.diagnostics, unavailable))
}
