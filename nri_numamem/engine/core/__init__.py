"""Values and rules that all parts of the engine share: events, state, context, plan, decision."""
