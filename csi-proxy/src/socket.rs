//! Unix sockets that gRPC is served on.
//!
//! Invariant: what is no socket is never taken away.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use futures::stream::{self, Stream};
use tokio::net::{UnixListener, UnixStream};

/// Opens a Unix socket. One that a process before us left is in the way, and nobody answers there any
/// more; what is no socket stays.
///
/// # Errors
/// When there is something else of this name, or no such folder.
pub fn bind(socket: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(socket)?,
        _ => {}
    }
    UnixListener::bind(socket)
}

/// Everybody who connects, one after the other.
pub fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async move {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    })
}
