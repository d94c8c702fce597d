//! Brings a file to a machine.
//!
//! Invariant: a file is at its place whole and with its digest, or as it was before; it is never run half-written.

use tokio::io::AsyncRead;

use super::error::Error;
use super::opened::Session;
use crate::scripts::UPLOAD;
use crate::scripts::parameters::Parameters;

/// A file as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Where it belongs; absolute.
    pub path: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Whether it is a program: mode 0755 instead of 0644.
    pub is_program: bool,
}

/// What an upload did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uploaded {
    /// It is new.
    Written,
    /// It was there already, with this digest.
    Present,
}

impl Session {
    /// Writes the file beside its place, compares digests on the machine, and renames it.
    ///
    /// # Errors
    /// [`Error::Digest`] when something else arrived; what was there stays.
    pub async fn upload(
        &self,
        file: &Upload,
        mut content: impl AsyncRead + Unpin,
    ) -> Result<Uploaded, Error> {
        let mode = if file.is_program { "0755" } else { "0644" };
        let parameters = Parameters::default()
            .plain("path", &file.path)
            .plain("sha256", &file.sha256)
            .plain("mode", mode);
        let answer = self.call(&UPLOAD, &parameters, &mut content).await?;
        match answer.get("result") {
            "written" => Ok(Uploaded::Written),
            "present" => Ok(Uploaded::Present),
            "mismatch" => Err(Error::Digest {
                hop: self.name.clone(),
                path: file.path.clone(),
                found: answer.words("sha256"),
                wanted: file.sha256.clone(),
            }),
            _ => Err(Error::Answer {
                why: "it has no result that is known",
                said: answer.words("result"),
            }),
        }
    }
}
