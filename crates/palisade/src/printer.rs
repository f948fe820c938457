//! The only place that prints.

use std::io::{self, Write as _};

/// Where text goes, with or without colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    choice: anstream::ColorChoice,
}

impl Printer {
    pub(crate) fn new(choice: anstream::ColorChoice) -> Printer {
        Printer { choice }
    }

    pub(crate) fn out(self, text: &str) -> io::Result<()> {
        let mut stdout = anstream::AutoStream::new(io::stdout().lock(), self.choice);
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Text that has no colours and may be long.
    pub(crate) fn plain(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    pub(crate) fn err(self, text: &str) -> io::Result<()> {
        let mut stderr = anstream::AutoStream::new(io::stderr().lock(), self.choice);
        stderr.write_all(text.as_bytes())?;
        stderr.flush()
    }
}
