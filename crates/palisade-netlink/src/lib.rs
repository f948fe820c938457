//! Netlink messages and attributes as bytes. Nothing here knows what a message is about, and nothing opens a socket.
#![warn(clippy::as_conversions)]

mod wire;

pub use wire::{Attributes, AttributesOneByOne, Header, Message, Messages, Odd, TooLong, Writer, field, messages};
