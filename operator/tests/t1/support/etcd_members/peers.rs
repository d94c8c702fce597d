//! How members find each other: a proxy (`CONNECT`) that knows their names, as DNS does in a cluster.
//!
//! Invariant: it leads to the members of one etcd alone.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::MEMBERS;
use crate::support::PATIENCE;

/// More than any request has that is sent here.
const MOST_BYTES: usize = 4096;

/// A proxy that runs until it is dropped.
pub(super) struct Peers {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Peers {
    pub(super) async fn start(ports: [u16; MEMBERS]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // Who is cut off dials again.
                    let _ = lead(stream, ports).await;
                });
            }
        });
        Ok(Self { address, task })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn lead(mut from: TcpStream, ports: [u16; MEMBERS]) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        anyhow::ensure!(head.len() < MOST_BYTES, "it asks for too much");
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let target = head.split_whitespace().nth(1).context("no target")?;
    let member = target
        .strip_prefix("etcd-")
        .and_then(|t| t.split(':').next());
    let seat: Option<usize> = member.and_then(|member| member.parse().ok());
    let port = seat
        .and_then(|seat| ports.get(seat))
        .context("nobody's name")?;
    let to = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await;
    let Ok(mut to) = to else {
        from.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await?;
        return Ok(());
    };
    from.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut from, &mut to).await?;
    Ok(())
}

/// Whether plain HTTP is answered there with 200, as a kubelet asks.
pub(super) async fn answers(port: u16, path: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream
            .take(MOST_BYTES as u64)
            .read_to_end(&mut answer)
            .await?;
        std::io::Result::Ok(answer.starts_with(b"HTTP/1.1 200"))
    };
    let answer = tokio::time::timeout(PATIENCE, ask).await;
    matches!(answer, Ok(Ok(true)))
}
