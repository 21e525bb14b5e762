"""Recommendations with the request, snapshot and version they were made from.

Revision: 20261130_3
Follows: 20261130_2
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_3"
down_revision = "20261130_2"
branch_labels = None
depends_on = None

MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "recommendations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("planner_version", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_recommendations"),
    )
    op.create_index("ix_recommendations_created_at", "recommendations", ["created_at"])
    op.create_index("ix_recommendations_snapshot_id", "recommendations", ["snapshot_id"])


def downgrade() -> None:
    op.drop_table("recommendations")
