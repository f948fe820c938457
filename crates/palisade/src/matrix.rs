//! `palisade matrix`.

use std::io;

use anyhow::{Result, anyhow, bail};
use palisade_analysis::matrix::{By, Filter, Matrix, Order, Row, Selection, Shown};
use palisade_engine::{PortSetId, PortSets, Reach, compile};
use palisade_model::{Model, PortProtocol, Protocol};
use palisade_report::{Group, matrix as form, v1};

use crate::cli::{MatrixArgs, MatrixBy, MatrixOutput};
use crate::input::{self, Input};
use crate::outcome::{Exit, Outcome};
use crate::printer::Printer;

/// How much is written at once.
const CHUNK: usize = 1 << 16;

pub(crate) fn run(args: &MatrixArgs, printer: Printer) -> Result<Outcome> {
    if args.input.namespace.is_some() {
        bail!(
            "`-n`: a matrix is about the whole cluster, and policies of other namespaces would not be read; `--focus` shows one namespace"
        );
    }
    let port = args.port.as_deref().map(port).transpose()?;
    let input = input::read(&args.input)?;
    if input.refused() {
        let stderr = format!("{}error: objects were refused, so there is no matrix that can be trusted\n", input.noticed());
        return Ok(Outcome::cannot_tell(stderr));
    }
    let model = &input.snapshot.model;
    let filter = filter(args, port, model)?;
    let compiled = compile(model);
    let mut reach = compiled.reach();
    let matrix = Matrix::new(model, &reach, by(args.by));
    let limits: String = input.unavailable.iter().map(|it| format!("note: {it}\n")).collect();
    if args.output == MatrixOutput::Json {
        let stdout = serde_json::to_string_pretty(&whole(args, &input, &matrix, &mut reach, &filter))? + "\n";
        return Ok(Outcome { stdout, stderr: String::new(), exit: Exit::Yes });
    }
    printer.err(&format!("{}{limits}", input.noticed()))?;
    let mut pipe = Pipe { printer, form: args.output, buffer: String::with_capacity(CHUNK * 2) };
    let written = write(&matrix, &mut reach, &filter, &mut pipe);
    let mixed = match written {
        Ok(mixed) => mixed,
        // A reader that has seen enough has closed the pipe; that is no failure of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::exited(Exit::Yes)),
        Err(error) => return Err(error.into()),
    };
    let rows = if mixed == 1 { "1 row".to_owned() } else { format!("{mixed} rows") };
    let note = format!("note: in {rows} not all pods fare alike, and the row says what some of them may open; `-o json` says what\n");
    Ok(Outcome { stdout: String::new(), stderr: if mixed > 0 { note } else { String::new() }, exit: Exit::Yes })
}

fn by(it: MatrixBy) -> By {
    match it {
        MatrixBy::Workload => By::Workload,
        MatrixBy::Namespace => By::Namespace,
        MatrixBy::Class => By::Class,
    }
}

fn filter(args: &MatrixArgs, port: Option<(PortProtocol, u16)>, model: &Model) -> Result<Filter> {
    let end = |flag: &str, text: &Option<String>| {
        let parse = |text: &String| Selection::parse(model, text).map_err(|error| anyhow!("`{flag}`: {error}"));
        text.as_ref().map(parse).transpose()
    };
    let order = match args.output {
        MatrixOutput::Text => Order::ByDestination,
        MatrixOutput::Json | MatrixOutput::Csv | MatrixOutput::Md | MatrixOutput::Dot => Order::BySource,
    };
    Ok(Filter {
        shown: if args.denied { Shown::Denied } else { Shown::Connections },
        order,
        focus: end("--focus", &args.focus)?,
        from: end("--from", &args.from)?,
        to: end("--to", &args.to)?,
        port,
    })
}

/// `80`, `udp/53`.
pub(crate) fn port(text: &str) -> Result<(PortProtocol, u16)> {
    let (protocol, number) = text.split_once('/').unwrap_or(("tcp", text));
    let Some(Protocol::Port(protocol)) = Protocol::parse(protocol) else {
        bail!("`--port {text}`: `{protocol}` has no ports; write tcp, udp or sctp")
    };
    let digits = number.bytes().all(|it| it.is_ascii_digit());
    match number.parse::<u16>() {
        Ok(number @ 1..) if digits => Ok((protocol, number)),
        Ok(_) | Err(_) => bail!("`--port {text}`: ports are 1 to 65535"),
    }
}

fn whole(args: &MatrixArgs, input: &Input, matrix: &Matrix, reach: &mut Reach<'_>, filter: &Filter) -> v1::Matrix {
    let mut words = form::Words::default();
    let rows = matrix.all(reach, filter);
    v1::Matrix {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Matrix".to_owned(),
        by: match args.by {
            MatrixBy::Workload => "workload",
            MatrixBy::Namespace => "namespace",
            MatrixBy::Class => "class",
        }
        .to_owned(),
        shown: if args.denied { "denied" } else { "connections" }.to_owned(),
        qualifications: input.unavailable.clone(),
        rows: rows.iter().map(|row| form::json(&mut words, reach.sets(), row)).collect(),
        diagnostics: input.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect(),
    }
}

/// Where rows go.
struct Pipe {
    printer: Printer,
    form: MatrixOutput,
    buffer: String,
}

impl Pipe {
    /// Writes what has gathered, if it is enough.
    fn flush(&mut self, enough: usize) -> io::Result<()> {
        if self.buffer.len() < enough {
            return Ok(());
        }
        match self.form {
            MatrixOutput::Text => self.printer.out(&self.buffer)?,
            MatrixOutput::Json | MatrixOutput::Csv | MatrixOutput::Md | MatrixOutput::Dot => self.printer.plain(&self.buffer)?,
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Writes all rows; how many are not true of all pods.
fn write(matrix: &Matrix, reach: &mut Reach<'_>, filter: &Filter, pipe: &mut Pipe) -> io::Result<usize> {
    let (head, end) = match pipe.form {
        MatrixOutput::Csv => (form::CSV_HEAD, ""),
        MatrixOutput::Md => (form::MARKDOWN_HEAD, ""),
        MatrixOutput::Dot => (form::DOT_HEAD, form::DOT_END),
        MatrixOutput::Text | MatrixOutput::Json => ("", ""),
    };
    pipe.buffer.push_str(head);
    let mut words = form::Words::default();
    let mut group = Group::new(matrix);
    let (mut rows, mut mixed) = (0_usize, 0_usize);
    matrix.rows(reach, filter, |sets: &PortSets, row: &Row<'_>| {
        rows += 1;
        mixed += usize::from(row.only_some != PortSetId::NONE);
        let out = &mut pipe.buffer;
        match pipe.form {
            MatrixOutput::Csv => form::csv(out, &mut words, sets, row),
            MatrixOutput::Md => form::markdown(out, &mut words, sets, row),
            MatrixOutput::Dot => form::dot(out, &mut words, sets, row),
            MatrixOutput::Text | MatrixOutput::Json => out.extend(group.add(sets, row)),
        }
        pipe.flush(CHUNK)
    })?;
    pipe.buffer.extend(group.finish());
    pipe.buffer.push_str(end);
    if rows == 0 && pipe.form == MatrixOutput::Text {
        pipe.buffer.push_str("no such connections\n");
    }
    pipe.flush(1)?;
    Ok(mixed)
}
