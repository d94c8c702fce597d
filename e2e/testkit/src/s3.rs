//! A real S3 endpoint, on loopback unless it is said where: versitygw, which serves a folder.
//!
//! Invariant: it has one bucket and one user, those below, and keeps what is put there in the folder `root` of the
//! folder that it is given.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;

use anyhow::Result;
use lab::programs::Program;

use crate::ports;
use crate::process::Process;
use crate::programs::reference_or_skip;
use crate::waiting::PATIENCE;
use crate::waiting::ask::ask_until;

/// Its only bucket.
pub const BUCKET: &str = "backups";
/// The region that it says it is in.
pub const REGION: &str = "us-east-1";
/// Its only user.
pub const ACCESS_KEY_ID: &str = "covey";
/// The user's password.
pub const SECRET_ACCESS_KEY: &str = "covey-secret";

/// Starts one; gives its port. `None`, loudly, when the program is missing and the test may be skipped.
///
/// # Errors
/// When it does not start.
pub async fn serve(folder: &Path) -> Result<Option<(Process, u16)>> {
    serve_at(folder, Ipv4Addr::LOCALHOST).await
}

/// The same, at another address of this machine.
///
/// # Errors
/// When it does not start.
pub async fn serve_at(folder: &Path, address: Ipv4Addr) -> Result<Option<(Process, u16)>> {
    let Some(program) = reference_or_skip(Program::VERSITYGW, "versitygw")? else {
        return Ok(None);
    };
    let root = folder.join("root");
    std::fs::create_dir_all(root.join(BUCKET))?;
    let port = ports::unused()?;
    let args = [
        "--port".to_owned(),
        format!("{address}:{port}"),
        format!("--access={ACCESS_KEY_ID}"),
        format!("--secret={SECRET_ACCESS_KEY}"),
        format!("--region={REGION}"),
        "posix".to_owned(),
        root.display().to_string(),
    ];
    let log = folder.join("versitygw.log");
    let mut process = Process::spawn("versitygw", &program, &args, &log)?;
    ask_until("an S3 endpoint", PATIENCE, || {
        let ended = process.exited();
        let tail = process.log_tail(10);
        async move {
            match (ended, TcpStream::connect((address, port))) {
                (Some(status), _) => Err(anyhow::anyhow!("{status}: {tail}")),
                (None, Ok(_)) => Ok(Ok(())),
                (None, Err(error)) => Ok(Err(error.to_string())),
            }
        }
    })
    .await?;
    Ok(Some((process, port)))
}
