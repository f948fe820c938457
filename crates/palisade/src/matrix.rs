//! `palisade matrix`.

use std::io;

use anyhow::{Result, anyhow};
use palisade_analysis::matrix::{By, Shown};
use palisade_analysis::port_filter;
use palisade_app::AppError;
use palisade_app::matrix::{MatrixOptions, WHOLE_CLUSTER, write_matrix};
use palisade_report::{MatrixError, MatrixFormat, Outcome, text};

use crate::cli::{MatrixArgs, MatrixBy, MatrixOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};
use crate::printer::Printer;

pub(crate) fn run(args: &MatrixArgs, printer: Printer) -> Result<CommandOutput> {
    let options = options(args)?;
    let cluster = input::cluster(&args.input, Scope::Whole(WHOLE_CLUSTER))?;
    let format = format(args.output);
    // JSON has diagnostics and limits in the document.
    let aside = format != MatrixFormat::Json;
    let mut notes = aside.then(|| text::diagnostics(&cluster.diagnostics()) + &text::notes(&cluster.limits()));
    let written = write_matrix(&cluster, &options, format, |part| {
        if let Some(notes) = notes.take() {
            printer.err(&notes)?;
        }
        if format == MatrixFormat::Text { printer.out(part) } else { printer.plain(part) }
    });
    let mixed = match written {
        Ok(mixed) => mixed,
        // The reader closed the pipe because it had seen enough.
        Err(AppError::Matrix(MatrixError::Write(error))) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => return Err(error.into()),
    };
    let rows = if mixed == 1 { "1 row".to_owned() } else { format!("{mixed} rows") };
    let note = format!("note: in {rows} not all pods fare alike, and the row says what some of them may open; `-o json` says what\n");
    Ok(CommandOutput { stderr: if aside && mixed > 0 { note } else { String::new() }, ..CommandOutput::exited(Outcome::Yes) })
}

fn options(args: &MatrixArgs) -> Result<MatrixOptions> {
    Ok(MatrixOptions {
        focus: args.focus.clone(),
        from: args.from.clone(),
        to: args.to.clone(),
        port: args.port.as_deref().map(port_filter).transpose().map_err(|error| anyhow!(error))?,
        shown: if args.denied { Shown::Denied } else { Shown::Connections },
        by: match args.by {
            MatrixBy::Workload => By::Workload,
            MatrixBy::Namespace => By::Namespace,
            MatrixBy::Class => By::Class,
        },
    })
}

fn format(output: MatrixOutput) -> MatrixFormat {
    match output {
        MatrixOutput::Text => MatrixFormat::Text,
        MatrixOutput::Json => MatrixFormat::Json,
        MatrixOutput::Csv => MatrixFormat::Csv,
        MatrixOutput::Md => MatrixFormat::Md,
        MatrixOutput::Dot => MatrixFormat::Dot,
        MatrixOutput::Svg => MatrixFormat::Svg,
        MatrixOutput::Html => MatrixFormat::Html,
    }
}
