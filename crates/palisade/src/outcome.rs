//! What a command says and how it exits.

/// The whole output of one command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Exit,
}

/// How a command exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Yes, allowed, clean.
    Yes,
    /// No, denied, found something.
    No,
    /// Could not tell.
    CannotTell,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::CannotTell => 2,
        }
    }
}

impl Outcome {
    /// Something to print, and all is well.
    pub(crate) fn said(stdout: String) -> Outcome {
        Outcome { stdout, stderr: String::new(), exit: Exit::Yes }
    }

    /// Everything has been said.
    pub(crate) fn exited(exit: Exit) -> Outcome {
        Outcome { stdout: String::new(), stderr: String::new(), exit }
    }

    /// No answer, and why.
    pub(crate) fn cannot_tell(stderr: String) -> Outcome {
        Outcome { stdout: String::new(), stderr, exit: Exit::CannotTell }
    }
}
