//! Streams of events that pages listen to (`text/event-stream`).
//!
//! Invariant: a stream says that something changed and never what, so that one page has one way to be rendered; changes
//! are gathered, so that a flood of them is a few events; it ends with its session.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::Event;
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::{Change, Listener};

/// For so long changes are gathered.
const GATHERS: Duration = Duration::from_millis(250);
/// After so long without one a line says that the stream is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a listener is told next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Told {
    /// From now on no change is missed.
    Synced,
    /// Something changed.
    Changed,
    /// Something of it may not be watched.
    Refused,
    /// Nothing happened for a while.
    Alive,
    /// The session is over.
    Ended,
}

impl Told {
    fn event(&self, number: u64) -> Event {
        let event = Event::default().id(number.to_string());
        match self {
            Self::Alive => Event::default().comment("alive"),
            Self::Synced => event.event("synced").data("1"),
            Self::Changed => event.event("change").data("1"),
            Self::Refused => event.event("refused").data("1"),
            Self::Ended => event.event("end").data("1"),
        }
    }
}

/// A listener's way through its events.
struct Telling {
    listener: Listener,
    ended: BoxFuture<'static, ()>,
    number: u64,
    is_synced: bool,
    is_over: bool,
}

impl Telling {
    async fn next(&mut self) -> Option<Told> {
        if self.is_over {
            return None;
        }
        if !self.is_synced {
            self.is_synced = true;
            let synced = &mut self.listener.synced;
            let all = async {
                for receiver in synced {
                    // A watch that has ended was refused, or its session is over: both are told below.
                    let _ = receiver.wait_for(|is| *is).await;
                }
            };
            let limit = tokio::time::timeout(HEARTBEAT, all);
            return tokio::select! {
                () = &mut self.ended => Some(self.end()),
                synced = limit => {
                    // Not in time: the next line says that the stream is alive, and the first change is told.
                    Some(if synced.is_ok() { Told::Synced } else { Told::Alive })
                }
            };
        }
        let told = tokio::select! {
            () = &mut self.ended => Told::Ended,
            told = heard(&mut self.listener) => told,
            () = tokio::time::sleep(HEARTBEAT) => Told::Alive,
        };
        Some(match told {
            Told::Ended => self.end(),
            Told::Changed => self.gather().await,
            told => told,
        })
    }

    /// Waits for what comes together with a change.
    async fn gather(&mut self) -> Told {
        let pause = tokio::time::sleep(GATHERS);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut self.ended => return self.end(),
                () = &mut pause => return Told::Changed,
                told = heard(&mut self.listener) => if told == Told::Ended {
                    return self.end();
                },
            }
        }
    }

    fn end(&mut self) -> Told {
        self.is_over = true;
        Told::Ended
    }
}

/// The next thing that concerns a listener.
async fn heard(listener: &mut Listener) -> Told {
    loop {
        match listener.changes.recv().await {
            Ok(Change::Changed(scope)) if listener.scopes.contains(&scope) => return Told::Changed,
            Ok(Change::Refused(scope)) if listener.scopes.contains(&scope) => return Told::Refused,
            Ok(Change::Unauthorized) | Err(RecvError::Closed) => return Told::Ended,
            Ok(Change::Changed(_) | Change::Refused(_)) => {}
            // It was too slow for all of them: something changed.
            Err(RecvError::Lagged(_)) => return Told::Changed,
        }
    }
}

/// The events for one page. `ended` resolves when the session is over; `held` is kept as long as the stream is.
pub fn events<H: Send + 'static>(
    listener: Listener,
    ended: impl Future<Output = ()> + Send + 'static,
    held: H,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    let telling = Telling {
        listener,
        ended: Box::pin(ended),
        number: 0,
        is_synced: false,
        is_over: false,
    };
    unfold((telling, held), |(mut telling, held)| async move {
        let told = telling.next().await?;
        telling.number += 1;
        let event = told.event(telling.number);
        Some((Ok(event), (telling, held)))
    })
}
