//! `palisade matrix`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;

use anyhow::{Result, anyhow, bail};
use palisade_analysis::matrix::{By, Filter, Matrix, Name, Order, Row, Selection, Shown};
use palisade_engine::{PortSetId, PortSets, Reach, compile};
use palisade_model::{Model, PortProtocol, Protocol};
use palisade_report::matrix_html::{self, About, Overview, Page};
use palisade_report::matrix_svg::{Ends, MOST, Picture};
use palisade_report::{Group, matrix as form, v1};

use crate::cli::{MatrixArgs, MatrixBy, MatrixOutput};
use crate::input::{self, Input, NOBODY};
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
    if input.is_about_nobody() {
        return Ok(Outcome::cannot_tell(format!("{}{NOBODY}", input.noticed())));
    }
    let model = &input.snapshot.model;
    let filter = filter(args, port, model)?;
    let compiled = compile(model);
    let mut reach = compiled.reach();
    let matrix = Matrix::new(model, &reach, by(args.by));
    let (mut form, head) = Form::begin(args, &input, &matrix, &mut reach, &filter)?;
    // JSON has it in the document.
    let aloud = args.output != MatrixOutput::Json;
    let limits = || input.limits().iter().map(|it| format!("note: {it}\n")).collect::<String>();
    printer.err(&if aloud { format!("{}{}", input.noticed(), limits()) } else { String::new() })?;
    let mut pipe = Pipe { printer, output: args.output, buffer: head };
    let written = write(&matrix, &mut reach, &filter, &mut form, &mut pipe);
    let mixed = match written {
        Ok(mixed) => mixed,
        // A reader that has seen enough has closed the pipe; that is no failure of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::exited(Exit::Yes)),
        Err(error) => return Err(error.into()),
    };
    let rows = if mixed == 1 { "1 row".to_owned() } else { format!("{mixed} rows") };
    let note = format!("note: in {rows} not all pods fare alike, and the row says what some of them may open; `-o json` says what\n");
    Ok(Outcome { stdout: String::new(), stderr: if aloud && mixed > 0 { note } else { String::new() }, exit: Exit::Yes })
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
        MatrixOutput::Json | MatrixOutput::Csv | MatrixOutput::Md | MatrixOutput::Dot | MatrixOutput::Svg | MatrixOutput::Html => {
            Order::BySource
        }
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

/// The document without its rows.
fn frame(args: &MatrixArgs, input: &Input) -> v1::Matrix {
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
        qualifications: input.limits(),
        rows: Vec::new(),
        diagnostics: input.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect(),
    }
}

/// What rows become.
enum Form<'m> {
    Text(Box<Group<'m>>),
    Json { end: String },
    Csv,
    Md,
    Dot,
    Svg(Box<Picture<'m>>),
    Html(Box<Page<'m>>),
}

impl<'m> Form<'m> {
    /// The form and how it begins.
    fn begin(args: &MatrixArgs, input: &Input, matrix: &'m Matrix, reach: &mut Reach<'_>, filter: &Filter) -> Result<(Form<'m>, String)> {
        Ok(match args.output {
            MatrixOutput::Text => (Form::Text(Box::new(Group::new(matrix))), String::new()),
            MatrixOutput::Json => {
                let (head, end) = form::json_frame(&frame(args, input))?;
                (Form::Json { end }, head)
            }
            MatrixOutput::Csv => (Form::Csv, form::CSV_HEAD.to_owned()),
            MatrixOutput::Md => (Form::Md, form::MARKDOWN_HEAD.to_owned()),
            MatrixOutput::Dot => (Form::Dot, form::DOT_HEAD.to_owned()),
            MatrixOutput::Svg => {
                let (picture, head) = Picture::new(ends(matrix, reach, filter)?, args.denied);
                (Form::Svg(Box::new(picture)), head)
            }
            MatrixOutput::Html => {
                let about = About { denied: args.denied, narrowed: is_narrowed(filter) };
                let head = matrix_html::head(about) + &overview(&input.snapshot.model, reach, filter, about);
                (Form::Html(Box::new(Page::new(matrix, about))), head)
            }
        })
    }

    /// Writes a row.
    fn add(&mut self, out: &mut String, words: &mut form::Words, sets: &PortSets, row: &Row<'m>, is_first: bool) -> io::Result<()> {
        match self {
            Form::Text(group) => out.extend(group.add(sets, row)),
            Form::Json { .. } => form::json_line(out, &form::json(words, sets, row), is_first)?,
            Form::Csv => form::csv(out, words, sets, row),
            Form::Md => form::markdown(out, words, sets, row),
            Form::Dot => form::dot(out, words, sets, row),
            Form::Svg(picture) => picture.add(out, sets, row),
            Form::Html(page) => page.add(out, sets, row),
        }
        Ok(())
    }

    /// Writes how it ends.
    fn finish(&mut self, out: &mut String, rows: usize) {
        match self {
            Form::Text(_) if rows == 0 => out.push_str("no such connections\n"),
            Form::Text(group) => out.push_str(&group.finish()),
            Form::Json { end } => {
                out.push_str(if rows == 0 { "" } else { "\n  " });
                out.push_str(end);
            }
            Form::Csv | Form::Md => {}
            Form::Dot => out.push_str(form::DOT_END),
            Form::Svg(picture) => picture.finish(out),
            Form::Html(page) => page.finish(out),
        }
    }
}

/// The ends of a picture: everyone, or those who have a row if not all were asked about.
fn ends<'m>(matrix: &'m Matrix, reach: &mut Reach<'_>, filter: &Filter) -> Result<Ends<'m>> {
    let (mut from, mut to, mut outside) = (BTreeSet::new(), BTreeSet::new(), (false, false));
    let Ok(()) = matrix.rows(reach, filter, |_, row| {
        match row.from {
            Name::Unit { name, .. } => drop(from.insert(name)),
            Name::Range { .. } => outside.0 = true,
        }
        match row.to {
            Name::Unit { name, .. } => drop(to.insert(name)),
            Name::Range { .. } => outside.1 = true,
        }
        Ok::<(), Infallible>(())
    });
    let everyone = !is_narrowed(filter);
    let those = |some: &BTreeSet<&str>| matrix.names().filter(|it| everyone || some.contains(it.0)).collect::<Vec<_>>();
    let (sources, destinations) = (those(&from), those(&to));
    let most = sources.len().max(destinations.len());
    if most > MOST {
        bail!(
            "`-o svg`: nobody can read a picture with {most} lines or columns ({MOST} are the most); `--by namespace` or `--focus` make it smaller, and so does `-o html`"
        );
    }
    let focus = filter.focus.as_ref().map(|it| matrix.selected(it).collect());
    Ok(Ends { sources, destinations, outside, focus })
}

/// Whether only some ends are asked about.
fn is_narrowed(filter: &Filter) -> bool {
    filter.focus.is_some() || filter.from.is_some() || filter.to.is_some()
}

/// The grid between namespaces.
fn overview(model: &Model, reach: &mut Reach<'_>, filter: &Filter, about: About) -> String {
    let matrix = Matrix::new(model, reach, By::Namespace);
    let mut overview = Overview::new(&matrix, about);
    if overview.is_readable() {
        let Ok(()) = matrix.rows(reach, filter, |sets, row| {
            overview.add(sets, row);
            Ok::<(), Infallible>(())
        });
    }
    overview.finish()
}

/// Where rows go.
struct Pipe {
    printer: Printer,
    output: MatrixOutput,
    buffer: String,
}

impl Pipe {
    /// Writes what has gathered, if it is enough.
    fn flush(&mut self, enough: usize) -> io::Result<()> {
        if self.buffer.len() < enough {
            return Ok(());
        }
        match self.output {
            MatrixOutput::Text => self.printer.out(&self.buffer)?,
            MatrixOutput::Json | MatrixOutput::Csv | MatrixOutput::Md | MatrixOutput::Dot | MatrixOutput::Svg | MatrixOutput::Html => {
                self.printer.plain(&self.buffer)?;
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Writes all rows; how many are not true of all pods.
fn write<'m>(matrix: &'m Matrix, reach: &mut Reach<'_>, filter: &Filter, form: &mut Form<'m>, pipe: &mut Pipe) -> io::Result<usize> {
    let mut words = form::Words::default();
    let (mut rows, mut mixed) = (0_usize, 0_usize);
    matrix.rows(reach, filter, |sets: &PortSets, row: &Row<'m>| {
        mixed += usize::from(row.only_some != PortSetId::NONE);
        form.add(&mut pipe.buffer, &mut words, sets, row, rows == 0)?;
        rows += 1;
        pipe.flush(CHUNK)
    })?;
    form.finish(&mut pipe.buffer, rows);
    pipe.flush(1)?;
    Ok(mixed)
}
