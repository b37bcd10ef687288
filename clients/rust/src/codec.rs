//! Encodes a shared message, so that a call can be repeated without copying its request.

use prost::Message;
use std::{marker::PhantomData, sync::Arc};
use tonic::{
    Status,
    codec::{Codec, EncodeBuf, Encoder},
};
use tonic_prost::ProstDecoder;

/// Encodes an `Arc<T>`, decodes an `R`.
pub(crate) struct SharedCodec<T, R>(PhantomData<fn(T) -> R>);

/// The encoding half.
pub(crate) struct SharedEncoder<T>(PhantomData<fn(T)>);

impl<T, R> SharedCodec<T, R> {
    pub(crate) fn new() -> Self {
        SharedCodec(PhantomData)
    }
}

impl<T: Message + 'static, R: Message + Default + 'static> Codec for SharedCodec<T, R> {
    type Encode = Arc<T>;
    type Decode = R;
    type Encoder = SharedEncoder<T>;
    type Decoder = ProstDecoder<R>;

    fn encoder(&mut self) -> Self::Encoder {
        SharedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl<T: Message + 'static> Encoder for SharedEncoder<T> {
    type Item = Arc<T>;
    type Error = Status;

    fn encode(&mut self, item: Arc<T>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}
