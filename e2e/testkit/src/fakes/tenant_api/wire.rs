//! What a server that means harm does below HTTP, in frames of HTTP/2 (RFC 9113) that no library would send.
//!
//! Invariant: no frame of the caller is kept, and what is sent without end ends at [`MOST`].

use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::call::Wire;
use super::hostile::MOST;
use super::state::State;

/// What a client sends before its first frame (§3.4).
const PREFACE: usize = 24;
/// The largest frame that is taken without having been agreed upon (§4.2).
const FRAME: usize = 16 * 1024;

// Types of frames (§6) and a flag of two of them.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;

/// REFUSED_STREAM (§7): the request was not processed and can be sent again.
const REFUSED_STREAM: u32 = 7;

/// Plays until the caller goes.
///
/// # Errors
/// That it went.
pub(super) async fn play<S>(mut stream: S, wire: Wire, state: &State) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.read_exact(&mut [0; PREFACE]).await?;
    write(&mut stream, SETTINGS, 0, 0, &[]).await?;
    if wire == Wire::GoAway {
        let _ = state.play();
        // The last stream that was taken is none, and there is no error (NO_ERROR).
        write(&mut stream, GOAWAY, 0, 0, &[0; 8]).await?;
        return stream.shutdown().await;
    }
    let mut payload = vec![0; FRAME];
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = header;
        let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
        let payload = payload.get_mut(..length).ok_or(ErrorKind::InvalidData)?;
        stream.read_exact(payload).await?;
        let id = u32::from_be_bytes([s0, s1, s2, s3]);
        match (kind, wire) {
            (SETTINGS, _) if flags & ACK == 0 => write(&mut stream, SETTINGS, ACK, 0, &[]).await?,
            (PING, _) if flags & ACK == 0 => write(&mut stream, PING, ACK, 0, payload).await?,
            (HEADERS, Wire::EndlessHeader) => endless_header(&mut stream, id, state).await?,
            (HEADERS, _) => {
                let _ = state.play();
                write(
                    &mut stream,
                    RST_STREAM,
                    0,
                    id,
                    &REFUSED_STREAM.to_be_bytes(),
                )
                .await?;
            }
            _ => {}
        }
    }
}

/// `:status: 200`, and then fields in one frame after another of which none is the last.
async fn endless_header<S: AsyncWrite + Unpin>(
    stream: &mut S,
    id: u32,
    state: &State,
) -> Result<()> {
    let sent = state.play();
    // An entry of the static table (RFC 7541, appendix A).
    write(stream, HEADERS, 0, id, &[0x88]).await?;
    // A field that is not to be remembered (RFC 7541 §6.2.2): its name, and 100 letters.
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    let fields = field.repeat(FRAME / field.len());
    let length = u64::try_from(fields.len()).unwrap_or(u64::MAX);
    while sent.fetch_add(length, Ordering::Relaxed) < MOST {
        write(stream, CONTINUATION, 0, id, &fields).await?;
    }
    Err(Error::from(ErrorKind::ConnectionAborted))
}

async fn write<S: AsyncWrite + Unpin>(
    stream: &mut S,
    kind: u8,
    flags: u8,
    id: u32,
    payload: &[u8],
) -> Result<()> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let header = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
    stream.write_all(&[&header, payload].concat()).await?;
    stream.flush().await
}
