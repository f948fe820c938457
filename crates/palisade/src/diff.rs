//! `palisade diff`.

use anyhow::{Result, anyhow, bail};
use palisade_analysis::port_filter;
use palisade_app::Versions;
use palisade_app::diff::{self, DiffOptions, Differences};
use palisade_report::{diff as form, diff_html, diff_text, text};
use palisade_runtime::live;

use crate::cli::{DiffArgs, DiffOutput, FailOn};
use crate::command_output::CommandOutput;
use crate::input;

pub(crate) fn run(args: &DiffArgs) -> Result<CommandOutput> {
    let port = args.port.as_deref().map(port_filter).transpose().map_err(|error| anyhow!(error))?;
    let fail_on = match args.fail_on {
        FailOn::Opened => diff::FailOn::Opened,
        FailOn::Closed => diff::FailOn::Closed,
        FailOn::Any => diff::FailOn::Any,
        FailOn::None => diff::FailOn::None,
    };
    let options = DiffOptions { focus: args.focus.clone(), port, fail_on };
    let Differences { report, diff, outcome } = diff::diff(&versions(args)?, &options)?;
    let stdout = match args.output {
        DiffOutput::Text => diff_text(&report),
        DiffOutput::Csv => form::csv(&diff, &report),
        DiffOutput::Md => form::markdown(&report),
        DiffOutput::Html => diff_html(&report),
        DiffOutput::Json => return CommandOutput::json(&report, outcome),
    };
    let stderr = form::diagnostics_text(&report.diagnostics) + &text::notes(&report.qualifications);
    Ok(CommandOutput { stdout, stderr, outcome })
}

fn versions(args: &DiffArgs) -> Result<Versions> {
    let stdin = args.versions.iter().chain(&args.apply).filter(|it| *it == "-").count();
    if stdin > 1 {
        bail!("`-`: standard input can be read once");
    }
    let controller = input::controller(&args.controller_name, &args.disabled_name)?;
    let read = |gathered| input::read(gathered, None, controller.clone());
    let files = |names: &[String]| read(input::files(names));
    let old = match (args.versions.as_slice(), args.live, args.apply.is_empty()) {
        ([old, new], false, true) => {
            let [old, new] = [old, new].map(|it| files(std::slice::from_ref(it)).cluster());
            return Ok(Versions::apart(old, new));
        }
        ([old], false, false) => files(std::slice::from_ref(old)),
        ([], true, false) => {
            let (kubeconfig, context) = (args.kubeconfig.clone(), args.context.clone());
            read(live::list(&live::LiveOptions { kubeconfig, context, namespace: None })?)
        }
        ([], true, true) => bail!("`--live` is the old version; `--apply FILE` says what would be put over it"),
        ([_], false, true) => bail!("NEW is missing; or say with `--apply FILE` what would be put over OLD"),
        ([], false, _) => bail!("OLD is missing: a file or a folder, or `--live` for the cluster of your kubeconfig"),
        ([_, ..], true, _) => bail!("with `--live` the cluster is the old version, and `--apply FILE` says what would be put over it"),
        ([_, _, ..], false, _) => bail!("`--apply` is put over OLD, so there is no NEW to read"),
    };
    Ok(old.with_applied(files(&args.apply)))
}
