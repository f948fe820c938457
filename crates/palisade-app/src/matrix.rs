//! `palisade matrix`: who reaches whom on which ports.

use std::convert::Infallible;
use std::io;

use palisade_analysis::matrix::{By, Filter, Matrix, Order, Selection, Shown};
use palisade_engine::{Compiled, compile};
use palisade_model::PortProtocol;
use palisade_report::matrix::{Words, json};
use palisade_report::{MatrixFormat, MatrixRows, v1};

use crate::cluster::Cluster;
use crate::error::AppError;

/// Why one namespace is not enough.
pub const WHOLE_CLUSTER: &str =
    "a matrix is about the whole cluster, and policies of other namespaces would not be read; `--focus` shows one namespace";

/// Which rows are wanted.
#[derive(Clone, Debug)]
pub struct MatrixOptions {
    /// Only rows with this end on either side.
    pub focus: Option<String>,
    /// Only rows from this end.
    pub from: Option<String>,
    /// Only rows to this end.
    pub to: Option<String>,
    /// Only connections to this port.
    pub port: Option<(PortProtocol, u16)>,
    /// Connections, or the pairs that have none.
    pub shown: Shown,
    /// What a row is about.
    pub by: By,
}

impl Default for MatrixOptions {
    fn default() -> MatrixOptions {
        MatrixOptions { focus: None, from: None, to: None, port: None, shown: Shown::Connections, by: By::Workload }
    }
}

/// All rows at once.
pub fn matrix(cluster: &Cluster, options: &MatrixOptions) -> Result<v1::Matrix, AppError> {
    let Asked { compiled, filter, mut document } = Asked::of(cluster, options, Order::BySource)?;
    let mut reach = compiled.reach();
    let mut words = Words::default();
    let matrix = Matrix::new(&cluster.snapshot.model, &reach, options.by);
    let Ok(()) = matrix.rows(&mut reach, &filter, |sets, row| {
        document.rows.push(json(&mut words, sets, row));
        Ok::<(), Infallible>(())
    });
    Ok(document)
}

/// Writes rows in a format, one after the other, so that they need not fit into memory. Returns how many rows are not true of all pods.
pub fn write_matrix(
    cluster: &Cluster,
    options: &MatrixOptions,
    format: MatrixFormat,
    write: impl FnMut(&str) -> io::Result<()>,
) -> Result<usize, AppError> {
    let Asked { compiled, filter, document } = Asked::of(cluster, options, format.order())?;
    let mut reach = compiled.reach();
    let model = &cluster.snapshot.model;
    let matrix = Matrix::new(model, &reach, options.by);
    let rows = MatrixRows { model, reach: &mut reach, matrix: &matrix, filter: &filter, document: &document };
    Ok(rows.write(format, write)?)
}

/// A cluster that has a matrix, and the rows of it that are wanted.
struct Asked {
    compiled: Compiled,
    filter: Filter,
    /// The report without rows.
    document: v1::Matrix,
}

impl Asked {
    fn of(cluster: &Cluster, options: &MatrixOptions, order: Order) -> Result<Asked, AppError> {
        cluster.whole(WHOLE_CLUSTER)?;
        cluster.complete("there is no matrix that can be trusted")?;
        cluster.with_pods()?;
        let model = &cluster.snapshot.model;
        let end = |option: &str, text: &Option<String>| {
            let parse = |text: &String| Selection::parse(model, text).map_err(|error| AppError::option(format!("`{option}`: {error}")));
            text.as_ref().map(parse).transpose()
        };
        let filter = Filter {
            shown: options.shown,
            order,
            focus: end("--focus", &options.focus)?,
            from: end("--from", &options.from)?,
            to: end("--to", &options.to)?,
            port: options.port,
        };
        Ok(Asked { compiled: compile(model), filter, document: document(cluster, options) })
    }
}

fn document(cluster: &Cluster, options: &MatrixOptions) -> v1::Matrix {
    let by = match options.by {
        By::Workload => "workload",
        By::Namespace => "namespace",
        By::Class => "class",
    };
    let shown = match options.shown {
        Shown::Connections => "connections",
        Shown::Denied => "denied",
    };
    v1::Matrix {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Matrix".to_owned(),
        by: by.to_owned(),
        shown: shown.to_owned(),
        qualifications: cluster.limits(),
        rows: Vec::new(),
        diagnostics: cluster.diagnostics(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SHOP, cluster};

    fn options(to: &str) -> MatrixOptions {
        MatrixOptions { to: Some(to.to_owned()), from: Some("shop".to_owned()), ..MatrixOptions::default() }
    }

    #[test]
    fn rows_say_what_a_pod_may_open() {
        let report = matrix(&cluster(SHOP), &options("shop/db")).unwrap();
        let rows: Vec<(&str, &str)> = report.rows.iter().map(|it| (it.from.name.as_str(), it.connections.as_str())).collect();
        assert_eq!(rows, [("shop/web[Pod]", "TCP 5432")]);
    }

    #[test]
    fn an_end_that_is_not_there_and_a_part_of_a_cluster_are_refused() {
        let error = matrix(&cluster(SHOP), &options("nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("`--to`: "), "{error}");
        let part = Cluster { namespace: Some("shop".to_owned()), ..cluster(SHOP) };
        assert!(matches!(matrix(&part, &MatrixOptions::default()), Err(AppError::OneNamespace(_))));
    }

    #[test]
    fn rows_are_written_in_a_format() {
        let mut text = String::new();
        let mixed = write_matrix(&cluster(SHOP), &options("shop/db"), MatrixFormat::Csv, |part| {
            text.push_str(part);
            Ok(())
        });
        assert_eq!((mixed.unwrap(), text.as_str()), (0, "src,dst,conn\nshop/web[Pod],shop/db[Pod],TCP 5432\n"));
    }
}
