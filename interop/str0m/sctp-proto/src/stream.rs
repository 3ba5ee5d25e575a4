//! Streams of an association. A stream here is both directions of a data channel.

use crate::association::Association;
use crate::error::{Error, Result};
use anabranch_base::time::Duration;
use anabranch_sctp::{Message, Reliability, SendError};
use bytes::Bytes;

/// A stream identifier (RFC 9260 §3.3.1).
pub type StreamId = u16;

/// The cause code of an ERROR or ABORT chunk (RFC 9260 §3.3.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCauseCode(pub u16);

/// Payload protocol identifiers of WebRTC (RFC 8831 §8).
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub enum PayloadProtocolIdentifier {
    Dcep = 50,
    String = 51,
    Binary = 53,
    StringEmpty = 56,
    BinaryEmpty = 57,
    #[default]
    Unknown,
}

impl From<u32> for PayloadProtocolIdentifier {
    fn from(value: u32) -> Self {
        match value {
            50 => Self::Dcep,
            51 => Self::String,
            53 => Self::Binary,
            56 => Self::StringEmpty,
            57 => Self::BinaryEmpty,
            _ => Self::Unknown,
        }
    }
}

/// The reliability policy of a stream's messages.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub enum ReliabilityType {
    #[default]
    Reliable = 0,
    /// A message is abandoned after a number of retransmissions (RFC 7496 §3.1).
    Rexmit = 1,
    /// A message is abandoned after a number of milliseconds (RFC 3758 §4.1).
    Timed = 2,
}

impl From<u8> for ReliabilityType {
    fn from(value: u8) -> Self {
        match value {
            1 => Self::Rexmit,
            2 => Self::Timed,
            _ => Self::Reliable,
        }
    }
}

/// The reason why a stream was not reset.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamResetError {
    Denied,
    Failed,
}

/// A change of a stream that the application has to know.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The first data of the peer has arrived.
    Opened {
        id: StreamId,
    },
    Readable {
        id: StreamId,
    },
    Writable {
        id: StreamId,
    },
    /// The peer has reset the stream, and all data before the reset has been read.
    Finished {
        id: StreamId,
    },
    /// Both directions have been reset, so the identifier can be used again.
    ResetComplete {
        id: StreamId,
    },
    ResetFailed {
        id: StreamId,
        reason: StreamResetError,
    },
    Stopped {
        id: StreamId,
        error_code: ErrorCauseCode,
    },
    Available,
    BufferedAmountLow {
        id: StreamId,
    },
    BufferedAmountHigh {
        id: StreamId,
    },
}

/// The state of a stream that is in use.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The progress of the outgoing stream's reset.
    pub(crate) reset: Reset,
    /// The peer has reset the stream. The channel ends when the remaining data has been read.
    pub(crate) ends: bool,
    pub(crate) ppid: PayloadProtocolIdentifier,
    unordered: bool,
    reliability: Reliability,
    low: usize,
    high: usize,
    /// The parts of an incomplete message that have been read so far.
    part: Vec<u8>,
}

/// The progress of an outgoing stream's reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    No,
    Asked,
    Done,
}

impl Channel {
    pub(crate) fn new(ppid: PayloadProtocolIdentifier) -> Self {
        Self {
            readable: true,
            writable: true,
            reset: Reset::No,
            ends: false,
            ppid,
            unordered: false,
            reliability: Reliability::Full,
            low: 0,
            high: usize::MAX,
            part: Vec::new(),
        }
    }

    /// Returns the next complete message. A message of more than `most` bytes aborts the association.
    pub(crate) fn read(
        &mut self,
        association: &mut crate::association::Core,
        id: StreamId,
        most: usize,
    ) -> Result<Option<Chunks>> {
        while let Some(received) = association.recv(id, &mut self.part) {
            if self.part.len() > most {
                association.abort(b"message too large");
                return Err(Error::ErrInboundPacketTooLarge);
            }
            if received.incomplete {
                // RFC 3758: the peer has abandoned the message, so its parts are dropped.
                self.part.clear();
            } else if received.end_of_message {
                let bytes = std::mem::take(&mut self.part).into();
                return Ok(Some(Chunks { ppi: received.ppid.into(), bytes }));
            }
        }
        Ok(None)
    }
}

/// A complete message.
#[derive(Debug)]
pub struct Chunks {
    pub ppi: PayloadProtocolIdentifier,
    bytes: Bytes,
}

impl Chunks {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies the message to `buf` and returns its length.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize> {
        let to = buf.get_mut(..self.bytes.len()).ok_or(Error::ErrShortBuffer)?;
        to.copy_from_slice(&self.bytes);
        Ok(self.bytes.len())
    }
}

/// A stream of an association.
pub struct Stream<'a> {
    pub(crate) id: StreamId,
    pub(crate) association: &'a mut Association,
}

impl Stream<'_> {
    fn channel(&self) -> Result<&Channel> {
        self.association.channels.get(&self.id).ok_or(Error::ErrStreamClosed)
    }

    fn channel_mut(&mut self) -> Result<&mut Channel> {
        self.association.channels.get_mut(&self.id).ok_or(Error::ErrStreamClosed)
    }

    pub fn stream_identifier(&self) -> StreamId {
        self.id
    }

    /// Returns the next complete message.
    pub fn read(&mut self) -> Result<Option<Chunks>> {
        self.read_sctp()
    }

    pub fn read_sctp(&mut self) -> Result<Option<Chunks>> {
        self.association.read(self.id)
    }

    pub fn write(&mut self, data: &[u8]) -> Result<usize> {
        self.write_with_ppi(data, self.get_default_payload_type()?)
    }

    pub fn write_sctp(&mut self, data: &Bytes, ppi: PayloadProtocolIdentifier) -> Result<usize> {
        self.write_with_ppi(data, ppi)
    }

    /// Queues a message for sending.
    pub fn write_with_ppi(&mut self, data: &[u8], ppi: PayloadProtocolIdentifier) -> Result<usize> {
        if !self.is_writable() || self.association.is_closing() {
            return Err(Error::ErrStreamClosed);
        }
        if data.len() > self.association.max_send_message as usize {
            return Err(Error::ErrOutboundPacketTooLarge);
        }
        let (id, channel) = (self.id, self.channel()?);
        // RFC 8832 §6: messages of the Data Channel Establishment Protocol are ordered and reliable.
        let opens = ppi == PayloadProtocolIdentifier::Dcep;
        let message = Message {
            stream: id,
            ppid: ppi as u32,
            unordered: channel.unordered && !opens,
            reliability: if opens { Reliability::Full } else { channel.reliability },
            ..Message::default()
        };
        let high = channel.high;
        let empty =
            matches!(ppi, PayloadProtocolIdentifier::StringEmpty | PayloadProtocolIdentifier::BinaryEmpty);
        let payload = match data {
            // RFC 8831 §6.6: SCTP has no empty messages, so one zero byte stands for an empty message.
            [] if empty => &[0],
            [] => return Ok(0),
            data => data,
        };
        let before = self.association.core.buffered_amount(id);
        self.association.core.send(message, payload).map_err(|why| match why {
            SendError::Full => Error::ErrTryAgain,
            SendError::TooLarge => Error::ErrOutboundPacketTooLarge,
            _ => Error::ErrStreamClosed,
        })?;
        if before < high && before + payload.len() >= high {
            self.association.tell(StreamEvent::BufferedAmountHigh { id });
        }
        Ok(data.len())
    }

    pub fn is_readable(&self) -> bool {
        self.channel().is_ok_and(|channel| channel.readable)
    }

    pub fn is_writable(&self) -> bool {
        self.channel().is_ok_and(|channel| channel.writable && channel.reset == Reset::No)
            && !self.association.is_resetting(self.id)
    }

    /// Ends reading, and resets the outgoing stream (RFC 8831 §6.7).
    pub fn stop(&mut self) -> Result<()> {
        let id = self.id;
        let asks = self.channel().is_ok_and(|channel| channel.readable && channel.reset == Reset::No);
        if asks {
            self.association.ask_reset(id)?;
        }
        if let Ok(channel) = self.channel_mut() {
            channel.readable = false;
        }
        self.association.end_if_read(id);
        Ok(())
    }

    /// Ends writing.
    pub fn finish(&mut self) -> Result<()> {
        if let Ok(channel) = self.channel_mut() {
            channel.writable = false;
        }
        Ok(())
    }

    pub fn close(&mut self) -> Result<()> {
        self.finish()?;
        self.stop()
    }

    pub fn set_default_payload_type(&mut self, ppi: PayloadProtocolIdentifier) -> Result<()> {
        self.channel_mut()?.ppid = ppi;
        Ok(())
    }

    pub fn get_default_payload_type(&self) -> Result<PayloadProtocolIdentifier> {
        Ok(self.channel()?.ppid)
    }

    pub fn set_reliability_params(
        &mut self,
        unordered: bool,
        rel_type: ReliabilityType,
        rel_val: u32,
    ) -> Result<()> {
        let channel = self.channel_mut()?;
        channel.unordered = unordered;
        channel.reliability = match rel_type {
            ReliabilityType::Reliable => Reliability::Full,
            ReliabilityType::Rexmit => Reliability::Retransmissions(rel_val),
            ReliabilityType::Timed => Reliability::Lifetime(Duration::from_millis(rel_val.into())),
        };
        Ok(())
    }

    pub fn buffered_amount(&self) -> Result<usize> {
        self.channel()?;
        Ok(self.association.core.buffered_amount(self.id))
    }

    pub fn buffered_amount_low_threshold(&self) -> Result<usize> {
        Ok(self.channel()?.low)
    }

    pub fn set_buffered_amount_low_threshold(&mut self, threshold: usize) -> Result<()> {
        self.channel_mut()?.low = threshold;
        self.association.core.set_low(self.id, threshold);
        Ok(())
    }

    pub fn buffered_amount_high_threshold(&self) -> Result<usize> {
        Ok(self.channel()?.high)
    }

    pub fn set_buffered_amount_high_threshold(&mut self, threshold: usize) -> Result<()> {
        self.channel_mut()?.high = threshold;
        Ok(())
    }
}
