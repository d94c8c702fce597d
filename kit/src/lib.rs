//! What every Covey binary shares
