//! `palisade allow`.

use anyhow::{Result, anyhow, bail};
use palisade_analysis::allow::{Form, Isolation, Wish, allow};
use palisade_analysis::{Asked, Party};
use palisade_model::Protocol;
use palisade_report::allow::{allowance_text, allowed, yaml};
use palisade_report::{explained, text, v1};

use crate::cli::allow::{AllowArgs, AllowOutput};
use crate::explain;
use crate::input;
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &AllowArgs) -> Result<Outcome> {
    let asked = asked(args)?;
    explain::within_namespace(&args.input, &[("FROM", &asked.from), ("TO", &asked.to)])?;
    let input = input::read(&args.input)?;
    explain::strangers(&args.input, &asked, &input)?;
    if input.refused() {
        return Ok(Outcome::cannot_tell(format!("{}error: objects were refused, so no proposal can be trusted\n", input.noticed())));
    }
    let (snapshot, unavailable) = (&input.snapshot, &input.unavailable);
    let wish = Wish {
        form: match (args.new, args.edit) {
            (true, _) => Form::New,
            (false, true) => Form::Addition,
            (false, false) => Form::Fitting,
        },
        isolation: if args.isolate { Isolation::MayCome } else { Isolation::AsItIs },
    };
    let allowance = match allow(&snapshot.model, &asked, wish) {
        Ok(allowance) => allowance,
        Err(error) => {
            let limits: String = unavailable.iter().map(|it| format!("note: {it}\n")).collect();
            return Ok(Outcome::cannot_tell(format!("{}{limits}error: {error}\n", input.noticed())));
        }
    };
    let (_, port) = split(&args.port);
    let question = v1::Question {
        from: args.from.clone(),
        to: args.to.clone(),
        protocol: asked.protocol.to_string(),
        port: (!port.is_empty()).then(|| port.to_owned()),
    };
    let before = allowance.before.clone().families_together();
    let explanation = explained(question, &before, &snapshot.sources, &snapshot.diagnostics, unavailable);
    let report =
        allowed(&allowance, explanation, &snapshot.sources, &input::controller(&args.input.controller_name, &args.input.disabled_name)?);
    printed(&report, args.output)
}

fn printed(report: &v1::Allowance, output: AllowOutput) -> Result<Outcome> {
    let exit = match report.outcome {
        v1::AllowOutcome::AllowedAlready | v1::AllowOutcome::Proposed => Exit::Yes,
        v1::AllowOutcome::Useless => Exit::No,
    };
    let noticed = text::diagnostics(&report.explanation.diagnostics);
    Ok(match (output, report.outcome) {
        (AllowOutput::Text, _) => Outcome { stdout: allowance_text(report), stderr: noticed, exit },
        (AllowOutput::Yaml, v1::AllowOutcome::Proposed) => Outcome { stdout: yaml(report), stderr: noticed, exit },
        // What is piped into `kubectl apply` must not be half an answer.
        (AllowOutput::Yaml, v1::AllowOutcome::AllowedAlready | v1::AllowOutcome::Useless) => {
            Outcome { stdout: String::new(), stderr: noticed + &allowance_text(report), exit }
        }
        (AllowOutput::Json, _) => Outcome { stdout: serde_json::to_string_pretty(report)? + "\n", stderr: String::new(), exit },
    })
}

/// Protocol and port; no port for a protocol that has none.
fn split(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some(parts) => parts,
        None if text.eq_ignore_ascii_case("icmp") => (text, ""),
        None => ("tcp", text),
    }
}

fn asked(args: &AllowArgs) -> Result<Asked> {
    let (protocol, port) = split(&args.port);
    let Some(protocol) = Protocol::parse(protocol) else { bail!("`{}`: `{protocol}` is not tcp, udp, sctp or icmp", args.port) };
    let port = explain::port_of(&args.port, protocol, (!port.is_empty()).then_some(port))?;
    let end = |name: &str, text: &str| Party::parse(text).map_err(|error| anyhow!("{name}: {error}"));
    Ok(Asked { from: end("FROM", &args.from)?, to: end("TO", &args.to)?, protocol, port })
}
