//! Controller of refusals: says on a NodePool what of it, or about it, cannot be carried out, in an
//! annotation, which the operator shows as the condition `AutoscalingRefused`, and in an Event.
//!
//! Invariant: the answer to a call never waits for it, and what stands there already is not written
//! again. A pool that is wrong by itself says that, whatever else is refused.

use std::sync::Arc;
use std::time::Duration;

use api::Reason;
use api::node_pool::Refused;
use kit::events::Notice;
use kit_client::errors::Classify;

use crate::cache::state::State;
use crate::context::Context;
use crate::error::Refusal;
use crate::node_group::template;
use crate::node_group::{self, Group};

/// Of the Event; the condition has this name too.
const REASON: Reason = Reason::AutoscalingRefused;

/// What is wrong with a pool by itself. The API server refuses nearly all of it; a pool may be older
/// than that.
#[must_use]
pub fn wrong(group: Group<'_>) -> Option<String> {
    let name = &group.pool.name;
    let (min, max) = (group.autoscaling.min, group.autoscaling.max);
    if min > max {
        return Some(format!(
            "NodePool {name}: spec.autoscaling.min is {min} and max is {max}, so it is kept at \
             {min}; lower the one or raise the other"
        ));
    }
    template::usable(&group.pool.shape).is_none().then(|| {
        format!(
            "NodePool {name} does not grow from zero: with the processors and the memory of \
             spec.provider nothing would be left for pods; give it more"
        )
    })
}

/// Groups that are wrong by themselves and do not say so yet.
#[must_use]
pub fn due(state: &State) -> Vec<(String, Refused)> {
    let unsaid = node_group::groups(state).filter_map(|group| {
        let refused = Refused {
            generation: group.pool.generation,
            message: wrong(group)?,
        };
        let said = group.pool.refused.as_ref() == Some(&refused);
        (!said).then(|| (group.pool.group.clone(), refused))
    });
    unsaid.collect()
}

/// Says on the pool that a call was refused.
pub fn report(ctx: &Arc<Context>, id: &str, refusal: &Refusal) {
    let found = ctx.cache.read(|state| {
        let group = node_group::find(state, id)?;
        let about = group.pool.reference(&ctx.settings.user_namespace);
        Some((about, group.pool.generation, wrong(group).is_none()))
    });
    let Some((about, generation, sound)) = found else {
        return;
    };
    let stays = sound && refusal.lasts();
    let (ctx, id) = (Arc::clone(ctx), id.to_owned());
    let refused = Refused {
        generation,
        message: refusal.to_string(),
    };
    tokio::spawn(async move {
        if stays {
            annotate(&ctx, &id, &refused).await;
        }
        let notice = Notice::warning(REASON, refused.message);
        ctx.events.publish(&about, &notice).await;
    });
}

/// Keeps it said of every pool what is wrong with it by itself. Ends never.
pub async fn run(ctx: Arc<Context>) {
    let context = &ctx;
    let say =
        |(id, refused): (String, Refused)| async move { annotate(context, &id, &refused).await };
    ctx.cache.control_loop(due, say).await;
}

/// Whether it stands there.
async fn annotate(ctx: &Context, id: &str, refused: &Refused) -> bool {
    let run = ctx.metrics.refusals.begin(Duration::ZERO);
    let noted = ctx.node_pools.refuse(id, refused).await;
    run.finish(noted.as_ref().err().map(Classify::class));
    if let Err(error) = &noted {
        let error = kit_client::errors::chain(error);
        tracing::warn!(
            error,
            "could not write on the NodePool of {id}: {}",
            refused.message
        );
    }
    noted.is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{cache, changed, pool, pool_event};

    fn said(spec: serde_json::Value, annotation: &str) -> Option<String> {
        let annotations = json!({ api::names::ANNOTATION_AUTOSCALING_REFUSED: annotation });
        let change = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        let pool = changed(&pool("workers", 2, 1, 5), change);
        cache([pool_event(&pool)])
            .read(|state| due(state).pop().map(|(_, refused)| refused.message))
    }

    #[test]
    fn a_pool_that_cannot_be_sized_says_why_once() {
        assert_eq!(said(json!({}), ""), None);
        let bounds = json!({ "autoscaling": { "min": 6 } });
        let sentence = said(bounds.clone(), "").unwrap();
        assert!(sentence.contains("min is 6 and max is 5"), "{sentence}");
        assert_eq!(said(bounds.clone(), &format!("1 {sentence}")), None);
        // Of an older spec, or another one.
        assert_eq!(
            said(bounds.clone(), &format!("0 {sentence}")),
            Some(sentence.clone())
        );
        assert_eq!(said(bounds, "1 something else"), Some(sentence));
        let small = said(
            json!({ "provider": { "kubevirt": { "memory": "128Mi" } } }),
            "",
        );
        assert!(small.unwrap().contains("nothing would be left"));
    }
}
