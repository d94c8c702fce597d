//! A stream that ends when its guard does.
//!
//! Invariant: once the guard is gone, reading gives the end and writing fails; so the library's own task, which
//! nobody else could end while the other side is silent, ends with the session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The stream's half.
pub(super) struct Cuttable<S> {
    stream: S,
    /// None once it is over: a receiver must not be asked again.
    guard: Option<oneshot::Receiver<()>>,
}

/// Ends the stream when dropped.
#[derive(Debug)]
pub(super) struct Guard(
    #[expect(dead_code, reason = "its drop is what counts")] oneshot::Sender<()>,
);

impl<S> Cuttable<S> {
    /// A stream and its guard.
    pub(super) fn new(stream: S) -> (Self, Guard) {
        let (sender, receiver) = oneshot::channel();
        let guard = Some(receiver);
        (Self { stream, guard }, Guard(sender))
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(guard) = &mut self.guard
            && Pin::new(guard).poll(context).is_ready()
        {
            self.guard = None;
        }
        self.guard.is_none()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cuttable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_over(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cuttable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_over(context) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_over(context) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_read_that_waits_ends_with_the_guard() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (mut stream, guard) = Cuttable::new(ours);
        theirs.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
        let reader = tokio::spawn(async move {
            let end = stream.read_u8().await;
            (end, stream.write_u8(1).await)
        });
        drop(guard);
        let (read, written) = reader.await.unwrap();
        assert!(read.is_err() && written.is_err());
    }
}
