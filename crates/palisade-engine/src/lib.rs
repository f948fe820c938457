//! Decides one flow, with the whole trace of why.
