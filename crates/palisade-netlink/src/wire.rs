//! Netlink messages and attributes as bytes: writing, and reading what may be cut short or odd.
//!
//! Numbers in attributes of `nf_tables` are big-endian; those of headers are the machine's.

const HEADER: usize = 16;
const NESTED: u16 = 0x8000;

/// The fixed part of a message.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub family: u8,
    pub resource: u16,
}

/// Messages one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    // INVARIANT: set as soon as a length did not fit its field; the bytes are worth nothing then.
    too_long: bool,
}

/// Something did not fit the length field of its attribute.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Writer {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn is_too_long(&self) -> bool {
        self.too_long
    }

    /// The bytes so far.
    pub fn finish(self) -> Result<Vec<u8>, TooLong> {
        if self.too_long { Err(TooLong) } else { Ok(self.bytes) }
    }

    pub fn message(&mut self, header: Header, body: impl FnOnce(&mut Writer)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(header.kind.to_ne_bytes());
        self.bytes.extend(header.flags.to_ne_bytes());
        self.bytes.extend(header.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([header.family, 0]);
        self.bytes.extend(header.resource.to_be_bytes());
        body(self);
        match u32::try_from(self.bytes.len() - start) {
            Ok(length) => self.patch(start, &length.to_ne_bytes()),
            Err(_) => self.too_long = true,
        }
    }

    /// Sets the flags of the message that starts at an offset.
    pub fn set_flags(&mut self, start: usize, flags: u16) {
        self.patch(start + 6, &flags.to_ne_bytes());
    }

    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind, |writer| writer.bytes.extend_from_slice(value));
    }

    pub fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    pub fn text(&mut self, kind: u16, value: &str) {
        self.attribute(kind, |writer| {
            writer.bytes.extend_from_slice(value.as_bytes());
            writer.bytes.push(0);
        });
    }

    pub fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Writer)) {
        self.attribute(kind | NESTED, body);
    }

    fn attribute(&mut self, kind: u16, body: impl FnOnce(&mut Writer)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        body(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => self.patch(start, &length.to_ne_bytes()),
            Err(_) => self.too_long = true,
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn patch(&mut self, at: usize, with: &[u8]) {
        match self.bytes.get_mut(at..at + with.len()) {
            Some(field) => field.copy_from_slice(with),
            None => self.too_long = true,
        }
    }
}

/// What was read and is not what was expected, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd(pub String);

impl Odd {
    pub fn new(what: impl Into<String>) -> Odd {
        Odd(what.into())
    }
}

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    /// The socket that it answers, or that caused what it tells of; 0 is the kernel.
    pub port: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// The messages of one datagram.
pub fn messages(bytes: &[u8]) -> Result<Vec<Message<'_>>, Odd> {
    Messages::of(bytes).collect()
}

/// The messages of one datagram, one by one. The first that cannot be read is the last.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    pub fn of(datagram: &'a [u8]) -> Messages<'a> {
        Messages(datagram)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Odd>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() {
            return None;
        }
        let Some((length, message)) = message(bytes) else { return Some(Err(Odd::new("a message is cut short"))) };
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(message))
    }
}

fn message(bytes: &[u8]) -> Option<(usize, Message<'_>)> {
    let length = usize::try_from(u32::from_ne_bytes(field(bytes, 0)?)).ok()?;
    let message = Message {
        kind: u16::from_ne_bytes(field(bytes, 4)?),
        flags: u16::from_ne_bytes(field(bytes, 6)?),
        sequence: u32::from_ne_bytes(field(bytes, 8)?),
        port: u32::from_ne_bytes(field(bytes, 12)?),
        payload: bytes.get(HEADER..length)?,
    };
    Some((length, message))
}

/// A fixed number of bytes at an offset.
pub fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The attributes of a message or of a nested attribute, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    /// Those of a message's payload, after the four bytes of family and resource.
    pub fn of_payload(payload: &'a [u8]) -> Result<Attributes<'a>, Odd> {
        Attributes::read(payload.get(4..).ok_or_else(|| Odd::new("a message is cut short"))?)
    }

    pub fn read(bytes: &'a [u8]) -> Result<Attributes<'a>, Odd> {
        AttributesOneByOne::of(bytes).collect::<Result<_, _>>().map(Attributes)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    pub fn find(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.iter().find(|(it, _)| *it == kind).map(|(_, value)| *value)
    }

    pub fn bytes(&self, kind: u16) -> Result<&'a [u8], Odd> {
        self.find(kind).ok_or_else(|| Odd(format!("attribute {kind} is missing")))
    }

    pub fn u32(&self, kind: u16) -> Result<u32, Odd> {
        let value: Option<[u8; 4]> = self.bytes(kind)?.try_into().ok();
        value.map(u32::from_be_bytes).ok_or_else(|| Odd(format!("attribute {kind} is no number")))
    }

    pub fn text(&self, kind: u16) -> Result<&'a str, Odd> {
        let bytes = self.bytes(kind)?;
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        std::str::from_utf8(bytes).map_err(|_| Odd(format!("attribute {kind} is no text")))
    }

    pub fn nest(&self, kind: u16) -> Result<Attributes<'a>, Odd> {
        Attributes::read(self.bytes(kind)?)
    }

    /// An error if there is anything else.
    pub fn only(&self, kinds: &[u16]) -> Result<(), Odd> {
        match self.0.iter().find(|(kind, _)| !kinds.contains(kind)) {
            Some((kind, _)) => Err(Odd(format!("attribute {kind} is not of ours"))),
            None => Ok(()),
        }
    }
}

/// Attributes as `Attributes` has them, without a place to keep them. The first that cannot be read is the last.
#[derive(Clone, Debug)]
pub struct AttributesOneByOne<'a>(&'a [u8]);

impl<'a> AttributesOneByOne<'a> {
    pub fn of(bytes: &'a [u8]) -> AttributesOneByOne<'a> {
        AttributesOneByOne(bytes)
    }
}

impl<'a> Iterator for AttributesOneByOne<'a> {
    type Item = Result<(u16, &'a [u8]), Odd>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() {
            return None;
        }
        let Some((length, attribute)) = attribute(bytes) else { return Some(Err(Odd::new("an attribute is cut short"))) };
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(attribute))
    }
}

fn attribute(bytes: &[u8]) -> Option<(usize, (u16, &[u8]))> {
    let length = usize::from(u16::from_ne_bytes(field(bytes, 0)?));
    let kind = u16::from_ne_bytes(field(bytes, 2)?) & 0x3fff;
    Some((length, (kind, bytes.get(4..length)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { kind: 7, flags: 1, sequence: 9, family: 1, resource: 0 }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut writer = Writer::default();
        writer.message(header(), |writer| {
            writer.text(1, "ab");
            writer.nest(2, |writer| writer.u32(3, 5));
        });
        writer.message(header(), |_| {});
        let bytes = writer.finish().unwrap();
        let read = messages(&bytes).unwrap();
        assert_eq!(read.iter().map(|it| (it.kind, it.flags, it.sequence)).collect::<Vec<_>>(), [(7, 1, 9); 2]);
        let attributes = Attributes::of_payload(read[0].payload).unwrap();
        assert_eq!(attributes.text(1), Ok("ab"));
        assert_eq!(attributes.nest(2).unwrap().u32(3), Ok(5));
        assert_eq!(attributes.only(&[1]), Err(Odd::new("attribute 2 is not of ours")));
    }

    #[test]
    fn an_attribute_over_its_length_field_is_an_error() {
        let mut writer = Writer::default();
        writer.bytes(1, &vec![0; 65_532]);
        assert_eq!(writer.finish(), Err(TooLong));
    }

    #[test]
    fn no_cut_of_a_message_panics_or_loops() {
        let mut writer = Writer::default();
        writer.message(header(), |writer| writer.nest(2, |writer| writer.u32(3, 5)));
        let bytes = writer.finish().unwrap();
        for end in 1..bytes.len() {
            assert_eq!(messages(&bytes[..end]), Err(Odd::new("a message is cut short")), "{end} bytes");
        }
        assert_eq!(Attributes::read(&[0, 0, 1, 0]), Err(Odd::new("an attribute is cut short")));
        assert_eq!(messages(&[0; 16]), Err(Odd::new("a message is cut short")));
    }
}
