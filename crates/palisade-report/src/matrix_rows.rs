//! A matrix in any format, written row by row, because the rows of a large cluster do not fit into memory.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::io;

use palisade_analysis::matrix::{By, Filter, Matrix, Name, Order, Row, Shown};
use palisade_engine::{PortSetId, PortSets, Reach};
use palisade_model::Model;

use crate::matrix as form;
use crate::matrix_html::{self, About, Overview, Page};
use crate::matrix_svg::{Ends, MOST, Picture};
use crate::matrix_text::Group;
use crate::v1;

/// Text is passed on once it exceeds this many bytes.
const CHUNK: usize = 1 << 16;

/// How a matrix is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixFormat {
    /// For people, with colours.
    Text,
    /// `v1::Matrix`.
    Json,
    /// `src,dst,conn`.
    Csv,
    /// A table of Markdown.
    Md,
    /// For Graphviz.
    Dot,
    /// A picture.
    Svg,
    /// A page.
    Html,
}

impl MatrixFormat {
    /// The order of rows in this format.
    pub fn order(self) -> Order {
        match self {
            MatrixFormat::Text => Order::ByDestination,
            MatrixFormat::Json | MatrixFormat::Csv | MatrixFormat::Md | MatrixFormat::Dot | MatrixFormat::Svg | MatrixFormat::Html => {
                Order::BySource
            }
        }
    }
}

/// Why a matrix was not written.
#[derive(Debug)]
pub enum MatrixError {
    /// A picture with so many lines or columns cannot be read.
    TooLarge(usize),
    /// The reader of the text failed.
    Write(io::Error),
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixError::TooLarge(lines) => write!(
                f,
                "`-o svg`: nobody can read a picture with {lines} lines or columns ({MOST} are the most); `--by namespace` or `--focus` make it smaller, and so does `-o html`"
            ),
            MatrixError::Write(error) => write!(f, "the matrix cannot be written: {error}"),
        }
    }
}

impl std::error::Error for MatrixError {}

impl From<io::Error> for MatrixError {
    fn from(error: io::Error) -> MatrixError {
        MatrixError::Write(error)
    }
}

/// The rows to write.
#[derive(Debug)]
pub struct MatrixRows<'a, 'm, 'c> {
    /// The cluster.
    pub model: &'a Model,
    /// Its connections.
    pub reach: &'a mut Reach<'c>,
    /// Its rows.
    pub matrix: &'m Matrix,
    /// The rows that are wanted.
    pub filter: &'a Filter,
    /// The document without rows.
    pub document: &'a v1::Matrix,
}

impl<'m> MatrixRows<'_, 'm, '_> {
    /// Passes the text on in chunks. Returns how many rows are not true of all pods.
    pub fn write(mut self, format: MatrixFormat, mut write: impl FnMut(&str) -> io::Result<()>) -> Result<usize, MatrixError> {
        let (mut form, mut buffer) = self.begin(format)?;
        let mut words = form::Words::default();
        let (mut rows, mut mixed) = (0_usize, 0_usize);
        self.matrix.rows(self.reach, self.filter, |sets: &PortSets, row: &Row<'m>| -> io::Result<()> {
            mixed += usize::from(row.only_some != PortSetId::NONE);
            form.add(&mut buffer, &mut words, sets, row, rows == 0)?;
            rows += 1;
            if buffer.len() >= CHUNK {
                write(&buffer)?;
                buffer.clear();
            }
            Ok(())
        })?;
        form.finish(&mut buffer, rows);
        write(&buffer)?;
        Ok(mixed)
    }

    /// The form of a format, and how its text begins.
    fn begin(&mut self, format: MatrixFormat) -> Result<(Form<'m>, String), MatrixError> {
        let denied = self.filter.shown == Shown::Denied;
        Ok(match format {
            MatrixFormat::Text => (Form::Text(Box::new(Group::new(self.matrix))), String::new()),
            MatrixFormat::Json => {
                let (head, end) = form::json_frame(self.document).map_err(io::Error::from)?;
                (Form::Json { end }, head)
            }
            MatrixFormat::Csv => (Form::Csv, form::CSV_HEAD.to_owned()),
            MatrixFormat::Md => (Form::Md, form::MARKDOWN_HEAD.to_owned()),
            MatrixFormat::Dot => (Form::Dot, form::DOT_HEAD.to_owned()),
            MatrixFormat::Svg => {
                let (picture, head) = Picture::new(self.ends()?, denied);
                (Form::Svg(Box::new(picture)), head)
            }
            MatrixFormat::Html => {
                let about = About { denied, narrowed: self.is_narrowed() };
                let head = matrix_html::head(about) + &self.overview(about);
                (Form::Html(Box::new(Page::new(self.matrix, about))), head)
            }
        })
    }

    /// The ends of a picture: all of them, or those that have a row if not all were asked about.
    fn ends(&mut self) -> Result<Ends<'m>, MatrixError> {
        let (mut from, mut to, mut outside) = (BTreeSet::new(), BTreeSet::new(), (false, false));
        let matrix = self.matrix;
        let Ok(()) = matrix.rows(self.reach, self.filter, |_, row| {
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
        let everyone = !self.is_narrowed();
        let those = |some: &BTreeSet<&str>| matrix.names().filter(|it| everyone || some.contains(it.0)).collect::<Vec<_>>();
        let (sources, destinations) = (those(&from), those(&to));
        let most = sources.len().max(destinations.len());
        if most > MOST {
            return Err(MatrixError::TooLarge(most));
        }
        let focus = self.filter.focus.as_ref().map(|it| matrix.selected(it).collect());
        Ok(Ends { sources, destinations, outside, focus })
    }

    /// Whether only some ends are asked about.
    fn is_narrowed(&self) -> bool {
        self.filter.focus.is_some() || self.filter.from.is_some() || self.filter.to.is_some()
    }

    /// The grid between namespaces.
    fn overview(&mut self, about: About) -> String {
        let matrix = Matrix::new(self.model, self.reach, By::Namespace);
        let mut overview = Overview::new(&matrix, about);
        if overview.is_readable() {
            let Ok(()) = matrix.rows(self.reach, self.filter, |sets, row| {
                overview.add(sets, row);
                Ok::<(), Infallible>(())
            });
        }
        overview.finish()
    }
}

/// State of a format between rows.
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

    /// Writes the end of the text.
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
