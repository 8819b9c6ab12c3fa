//! Encodes and decodes the messages of the peer protocol for tonic.

use std::marker::PhantomData;

use bytes::Buf;
use meridian_protocol::peer::{Ask, PeerError, Tell};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A message of the protocol.
pub(super) trait Message: Sized + Send + 'static {
    fn write(&self, to: &mut EncodeBuf<'_>);
    fn read(from: impl Buf) -> Result<Self, PeerError>;
}

impl Message for Ask {
    fn write(&self, to: &mut EncodeBuf<'_>) {
        self.encode(to);
    }
    fn read(from: impl Buf) -> Result<Ask, PeerError> {
        Ask::decode(from)
    }
}

impl Message for Tell {
    fn write(&self, to: &mut EncodeBuf<'_>) {
        self.encode(to);
    }
    fn read(from: impl Buf) -> Result<Tell, PeerError> {
        Tell::decode(from)
    }
}

/// Encodes one type and decodes the other.
pub(super) struct Messages<Out, In>(PhantomData<(Out, In)>);

impl<Out, In> Default for Messages<Out, In> {
    fn default() -> Self {
        Messages(PhantomData)
    }
}

impl<Out: Message, In: Message> Codec for Messages<Out, In> {
    type Encode = Out;
    type Decode = In;
    type Encoder = Side<Out>;
    type Decoder = Side<In>;

    fn encoder(&mut self) -> Side<Out> {
        Side(PhantomData)
    }

    fn decoder(&mut self) -> Side<In> {
        Side(PhantomData)
    }
}

/// One direction.
pub(super) struct Side<M>(PhantomData<M>);

impl<M: Message> Encoder for Side<M> {
    type Item = M;
    type Error = Status;

    fn encode(&mut self, message: M, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.write(to);
        Ok(())
    }
}

impl<M: Message> Decoder for Side<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        M::read(from).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}
