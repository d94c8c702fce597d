//! Answers what is asked from outside.
//!
//! Invariant: nothing is wanted for ever: who asks for a snapshot names one that is there, and the next one is enough.

use backup_format::object::{self, MOST_OBJECT};
use backup_format::{FullName, Kind, Name};

use super::Engine;
use crate::plan::listing::Listing;
use crate::questions::{Answer, Description, Question};
use crate::store::{Cause, Store};

impl<S: Store> Engine<S> {
    /// Whether somebody waits for a full snapshot.
    pub(super) fn is_wanted(&self) -> bool {
        let newest = self.listing.as_ref().map(Listing::newest_full);
        newest.is_some() && newest <= self.wanted_after
    }

    pub(super) async fn answer(&mut self, question: Question) {
        match question {
            Question::Full { after } => {
                let newest = self.listing.as_ref().map(Listing::newest_full);
                match newest {
                    Some(newest) if after <= newest => {
                        self.wanted_after = self.wanted_after.max(Some(after));
                    }
                    // No snapshot would ever be enough for one that is not there.
                    Some(_) => {
                        tracing::warn!("a snapshot after one that is not there is not taken");
                    }
                    // Nobody looked yet; who asked asks again.
                    None => {}
                }
            }
            Question::Of {
                full,
                keep_until_ms,
                answer,
            } => {
                // Who asked may have gone.
                let _ = answer.send(self.describe(full, keep_until_ms).await);
            }
        }
    }

    async fn describe(&mut self, full: FullName, keep_until_ms: Option<u64>) -> Answer {
        let is_there = match &self.listing {
            None => return Answer::Unknown("the store was not looked at yet".to_owned()),
            Some(listing) => listing.fulls.contains(&full),
        };
        if !is_there {
            return Answer::Gone;
        }
        let name = Name::Head(full);
        let key = self.writer.key(name);
        let bytes = match self.writer.store.get(&key, MOST_OBJECT).await {
            Ok(bytes) => bytes,
            Err(error) if error.cause == Cause::NotFound => return Answer::Gone,
            Err(error) => return Answer::Unknown(error.to_string()),
        };
        let header = match object::open(name, &self.writer.scope, &bytes) {
            Ok(opened) => opened.header.clone(),
            Err(damage) => return Answer::Unknown(damage.to_string()),
        };
        let Kind::Head {
            bytes, database, ..
        } = header.kind
        else {
            return Answer::Unknown(format!("{name} is no head"));
        };
        let kept = |listing: &Option<Listing>| listing.as_ref().and_then(|l| l.kept_until(&full));
        if let Some(until) = keep_until_ms
            && kept(&self.listing) < Some(until)
            && let Err(error) = self.mark(Name::Kept(full, until)).await
        {
            return Answer::Unknown(error.to_string());
        }
        let listing = self.listing.as_ref();
        Answer::Is(Box::new(Description {
            key,
            bytes,
            database,
            etcd: header.etcd,
            kubernetes: header.kubernetes,
            is_verified: listing.is_some_and(|listing| listing.is_verified(&full)),
            kept_until_ms: kept(&self.listing),
        }))
    }
}
