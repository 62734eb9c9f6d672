"""Evidence of answers: receipts, their replay, the chain of identities, and prompts.

Reads results and identities, and no database; `service` composes it with the store. Import from `receipts`,
`chain` and `prompts`.
"""
