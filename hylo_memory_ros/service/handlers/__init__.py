"""Operations of a memory, one module a group; `MemoryService` delegates to them.

Each handler takes the shared `MemoryCore`. Imported by `service.memory` and by each other, not from
outside.
"""
