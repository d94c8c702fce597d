//! Brings a file to a machine, part by part.
//!
//! Invariant: a file is at its place whole and with its digest, or as it was before; it is never run half-written. What came
//! before a connection was lost is not sent again.

use std::io::SeekFrom;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeek, AsyncSeekExt as _, empty};

use super::error::Error;
use super::opened::Session;
use crate::answer::Answer;
use crate::scripts::UPLOAD;
use crate::scripts::parameters::Parameters;

/// Bytes of a part: within the silence that a command may keep, also over half a megabit a second.
const PART: u64 = 2 * 1024 * 1024;

/// A file as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Where it belongs; absolute.
    pub path: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Bytes of the content.
    pub size: u64,
    /// Whether it is a program: mode 0755 instead of 0644.
    pub is_program: bool,
}

/// How far an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploaded {
    /// It is new.
    Written,
    /// It was there already, with this digest.
    Present,
    /// So many bytes of it are there, beside its place.
    Partly(u64),
}

impl Session {
    /// Sends what is missing until it is whole, or for so long; then digests are compared on the machine, and it is renamed.
    ///
    /// # Errors
    /// [`Error::Digest`] when something else arrived; what was there stays. [`Error::NoRoom`] where the machine takes nothing
    /// more.
    pub async fn upload(
        &self,
        file: &Upload,
        content: &mut (impl AsyncRead + AsyncSeek + Unpin),
        within: Duration,
    ) -> Result<Uploaded, Error> {
        let began = Instant::now();
        let mut uploaded = self.send_part(file, None, empty()).await?;
        while let Uploaded::Partly(there) = uploaded {
            if began.elapsed() >= within {
                break;
            }
            let at = content.seek(SeekFrom::Start(there)).await;
            at.map_err(Error::Source)?;
            uploaded = self
                .send_part(file, Some(there), content.take(PART))
                .await?;
            if matches!(uploaded, Uploaded::Partly(now) if now <= there || now > file.size) {
                return Err(self.no_room(file));
            }
        }
        Ok(uploaded)
    }

    /// Sends one part; without `offset` nothing is sent, and the machine says how much is there.
    ///
    /// # Errors
    /// As [`Self::upload`].
    pub async fn send_part(
        &self,
        file: &Upload,
        offset: Option<u64>,
        mut content: impl AsyncRead + Unpin,
    ) -> Result<Uploaded, Error> {
        let mode = if file.is_program { "0755" } else { "0644" };
        let parameters = Parameters::default()
            .plain("path", &file.path)
            .plain("sha256", &file.sha256)
            .plain("size", file.size.to_string())
            .plain("offset", offset.map(|n| n.to_string()).unwrap_or_default())
            .plain("mode", mode);
        let answer = self.call(&UPLOAD, &parameters, &mut content).await?;
        self.uploaded(file, &answer)
    }

    fn no_room(&self, file: &Upload) -> Error {
        Error::NoRoom {
            hop: self.name.clone(),
            path: file.path.clone(),
        }
    }

    fn uploaded(&self, file: &Upload, answer: &Answer) -> Result<Uploaded, Error> {
        match (answer.get("result"), answer.number("have")) {
            ("written", _) => Ok(Uploaded::Written),
            ("present", _) => Ok(Uploaded::Present),
            ("part", Some(there)) => Ok(Uploaded::Partly(there)),
            ("mismatch", _) => Err(Error::Digest {
                hop: self.name.clone(),
                path: file.path.clone(),
                found: answer.words("sha256"),
                wanted: file.sha256.clone(),
            }),
            ("unwritable", _) => Err(self.no_room(file)),
            _ => Err(Error::Answer {
                why: "it has no result that is known",
                said: answer.words("result"),
            }),
        }
    }
}
