//! Runs one fixed script: parameters and script go over standard input, one line comes back.
//!
//! Invariant: no value ever stands in a command line, in the environment or in shell text; a command that is silent,
//! endless or too loud is given up.

use bytes::{Bytes, BytesMut};
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

use super::error::Error;
use super::handshake::within;
use super::opened::Session;
use super::output::{MOST, Output, Stream};
use super::target::Escalation;
use crate::answer::Answer;
use crate::scripts::parameters::Parameters;
use crate::scripts::{CLEAN_ENVIRONMENT, LOADER, Script, sent};

/// Bytes of a piece of a file.
const PIECE: usize = 32 * 1024;

/// The whole command line; nothing in it comes from outside of this file.
fn line(escalation: Escalation) -> String {
    match escalation {
        Escalation::None => format!("{CLEAN_ENVIRONMENT} {LOADER}"),
        Escalation::Sudo => format!("sudo -n {CLEAN_ENVIRONMENT} {LOADER}"),
    }
}

/// What was sent, and how the script is called.
struct Call<'a> {
    hop: String,
    command: &'static str,
    parameters: &'a Parameters,
    output: Output,
    deadline: Instant,
    /// Status, once there is one.
    status: Option<u32>,
}

/// Whether there is more to read.
#[derive(PartialEq, Eq)]
enum Next {
    More,
    End,
}

impl Session {
    /// Runs a script and gives its answer. `payload` is what the script finds on standard input.
    pub(super) async fn call(
        &self,
        script: &Script,
        parameters: &Parameters,
        payload: &mut (impl AsyncRead + Unpin),
    ) -> Result<Answer, Error> {
        let hop = self.name.clone();
        let opened = async {
            let channel = self.login.handle.channel_open_session().await?;
            channel.exec(true, line(self.escalation)).await?;
            Ok(channel)
        };
        let opened = within(&hop, "run a command", self.limits.connect, opened).await?;
        let channel = opened.map_err(|error: russh::Error| Error::protocol(&hop, &error))?;
        let (mut read, write) = channel.split();
        let mut call = Call {
            hop,
            command: script.name,
            parameters,
            output: Output::default(),
            deadline: Instant::now() + self.limits.command,
            status: None,
        };
        self.wait_until_ready(&mut call, &mut read).await?;
        let sent = send(&write, script, parameters, payload);
        tokio::pin!(sent);
        let mut is_sending = true;
        loop {
            tokio::select! {
                biased;
                next = self.next(&mut call, &mut read) => if next? == Next::End { break },
                result = &mut sent, if is_sending => {
                    is_sending = false;
                    // A script may have enough before everything is sent; its answer says so.
                    if let Err(error @ Error::Source(_)) = result {
                        return Err(error);
                    }
                }
            }
        }
        let tail = || call.output.tail(parameters.secrets());
        match call.status {
            Some(0) => call.output.answer(parameters.secrets()),
            Some(status) => Err(Error::Failed {
                hop: call.hop.clone(),
                command: call.command,
                status,
                said: tail(),
            }),
            None => Err(Error::Cut {
                hop: call.hop.clone(),
                command: call.command,
            }),
        }
    }

    async fn wait_until_ready(
        &self,
        call: &mut Call<'_>,
        read: &mut ChannelReadHalf,
    ) -> Result<(), Error> {
        loop {
            let how = match (call.output.ready(), self.escalation) {
                (Some(0), _) => return Ok(()),
                (Some(_), Escalation::None) => "log in as root, or set escalation: Sudo",
                (_, Escalation::Sudo) => {
                    "let sudo ask for no password: \"<user> ALL=(ALL) NOPASSWD: ALL\" in /etc/sudoers.d"
                }
                (None, Escalation::None) => "its login shell has to run sh",
            };
            if call.output.ready().is_none() && self.next(call, read).await? == Next::More {
                continue;
            }
            if call.output.ready().is_none() && call.status.is_none() {
                return Err(Error::Cut {
                    hop: call.hop.clone(),
                    command: call.command,
                });
            }
            return Err(Error::NotRoot {
                hop: call.hop.clone(),
                user: self.user.clone(),
                how,
                said: call.output.tail(call.parameters.secrets()),
            });
        }
    }

    /// Takes the next message of the machine, within all bounds.
    async fn next(&self, call: &mut Call<'_>, read: &mut ChannelReadHalf) -> Result<Next, Error> {
        let left = call.deadline.saturating_duration_since(Instant::now());
        let wait = self.limits.silence.min(left);
        let Ok(message) = timeout(wait, read.wait()).await else {
            let is_silent = wait == self.limits.silence;
            return Err(Error::Stuck {
                hop: call.hop.clone(),
                command: call.command,
                what: if is_silent {
                    "says nothing for"
                } else {
                    "has not ended after"
                },
                limit: if is_silent {
                    self.limits.silence
                } else {
                    self.limits.command
                },
                said: call.output.tail(call.parameters.secrets()),
            });
        };
        let fits = match message {
            None => return Ok(Next::End),
            Some(ChannelMsg::Data { data }) => call.output.push(Stream::Stdout, &data),
            Some(ChannelMsg::ExtendedData { data, .. }) => call.output.push(Stream::Stderr, &data),
            Some(ChannelMsg::ExitStatus { exit_status }) => {
                call.status = Some(exit_status);
                true
            }
            Some(ChannelMsg::ExitSignal { .. }) => {
                call.status = Some(128);
                true
            }
            // A server that forbids commands.
            Some(ChannelMsg::Failure) => {
                call.status = Some(126);
                return Ok(Next::End);
            }
            Some(_) => true,
        };
        if fits {
            return Ok(Next::More);
        }
        Err(Error::TooMuchOutput {
            hop: call.hop.clone(),
            command: call.command,
            most: MOST,
            said: call.output.tail(call.parameters.secrets()),
        })
    }
}

async fn send(
    write: &ChannelWriteHalf<Msg>,
    script: &Script,
    parameters: &Parameters,
    payload: &mut (impl AsyncRead + Unpin),
) -> Result<(), Error> {
    // A machine that takes no more has ended the script, and what is read says how; so this is no error here.
    let head = sent(script, parameters);
    if write.data_bytes(Bytes::from(head)).await.is_err() {
        return Ok(());
    }
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        match payload.read_buf(&mut piece).await {
            Ok(0) => break,
            Ok(_) if write.data_bytes(piece.freeze()).await.is_err() => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(Error::Source(error)),
        }
    }
    let _ = write.eof().await;
    Ok(())
}
