//! Goes over Secrets and Services in the etcd of a copy of another tenant cluster, before any kube-apiserver uses it
//! ([`crate::restoring::copy`]).
//!
//! Each is written once, changed or not, so that those that are left are those whose last change is of then: wherever it
//! ended it goes on there, and needs to remember nothing. Who comes late, and does not lead any more, finds none: what
//! kube-apiservers write is newer.
//! Invariant: no more than an answer's and a reconcile's bytes are held of it, and nothing of it is printed.

use pki::issue::random_bytes;

use super::{CHANGE_PATIENCE, Members, call, speaker};
use crate::context::Context;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::restoring::copy::encrypted::Keys;
use crate::restoring::copy::{Fate, Kind, REWRITTEN, fate};
use crate::tenant_session::etcd;
use crate::tenant_session::etcd::answers::Stored;

/// Objects that are read at once. One may have 1.5 MiB, and an answer has 4 MiB at most: where these are too many, one is
/// read at a time.
const MOST: u32 = 32;
/// Bytes that are written at once: etcd takes requests of 1.5 MiB, and one object is always written alone.
const MOST_BYTES: usize = 512 << 10;
/// Rounds of one reconcile; the next one goes on.
const ROUNDS: usize = 256;

/// Fails where some are left, with words that stay the same. `raised`: what is of then was changed before this revision,
/// and what is written now is after it.
pub(super) async fn rewrite(
    ctx: &Context,
    members: Members<'_>,
    observed: &Observed,
    raised: i64,
) -> Result<(), String> {
    let keys = Keys::read(&observed.material.encryption).ok_or("its encryption key is missing")?;
    let mut rounds = 0;
    for (from, before, kind) in REWRITTEN {
        loop {
            ctx.leadership.ensure().map_err(|error| error.to_string())?;
            rounds += 1;
            if rounds > ROUNDS {
                return Err("there is more than one look goes over".to_owned());
            }
            let found = read(ctx, members, observed, (from, before), raised).await?;
            if found.is_empty() {
                break;
            }
            for some in batches(&found) {
                write(ctx, members, observed, some, (kind, &keys)).await?;
            }
        }
    }
    Ok(())
}

async fn read(
    ctx: &Context,
    members: Members<'_>,
    observed: &Observed,
    range: (&str, &str),
    raised: i64,
) -> Result<Vec<Stored>, String> {
    let member = speaker(members, observed).ok_or("no member of etcd answers that has a leader")?;
    let most = async |most| {
        let asked = call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
            etcd::unchanged_since(&client, range, raised, most).await
        });
        asked.await
    };
    match most(MOST).await {
        Ok(found) => Ok(found),
        Err(_) => most(1).await,
    }
}

async fn write(
    ctx: &Context,
    members: Members<'_>,
    observed: &Observed,
    some: &[Stored],
    (kind, keys): (Kind, &Keys),
) -> Result<(), String> {
    let member = speaker(members, observed).ok_or("no member of etcd answers that has a leader")?;
    let fates: Result<Vec<Fate>, String> = some
        .iter()
        .map(|stored| {
            let nonce = random_bytes().map_err(|error| error.to_string())?;
            Ok(fate(kind, &stored.value, keys, nonce))
        })
        .collect();
    let fates = fates?;
    let all = some.iter().zip(&fates).map(|(stored, fate)| match fate {
        Fate::Stays => (stored, Some(stored.value.as_slice())),
        Fate::Goes => (stored, None),
        Fate::Becomes(value) => (stored, Some(value.as_slice())),
    });
    let all: Vec<_> = all.collect();
    let asked = call(ctx, observed, member, CHANGE_PATIENCE, async |client| {
        etcd::replace(&client, &all).await
    });
    // Where somebody else wrote meanwhile, or did it already, it is read again.
    asked.await.map(drop)
}

/// As many as are written at once, one after the other.
fn batches(all: &[Stored]) -> Vec<&[Stored]> {
    let (mut batches, mut rest) = (Vec::new(), all);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|stored| {
            bytes += stored.value.len();
            bytes <= MOST_BYTES
        });
        let (some, others) = rest.split_at(fits.count().max(1));
        batches.push(some);
        rest = others;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_written_in_order_and_no_more_at_once_than_etcd_takes() {
        let of = |sizes: &[usize]| {
            let stored = |size: &usize| Stored {
                key: Vec::new(),
                value: vec![0; *size],
                changed_at: 1,
            };
            let all: Vec<_> = sizes.iter().map(stored).collect();
            let counts: Vec<_> = batches(&all).into_iter().map(<[Stored]>::len).collect();
            counts
        };
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[1, 2, 3]), [3]);
        assert_eq!(of(&[MOST_BYTES, 1, MOST_BYTES + 1, 2]), [1, 1, 1, 1]);
        assert_eq!(of(&[MOST_BYTES / 2, MOST_BYTES / 2, 1]), [2, 1]);
    }
}
