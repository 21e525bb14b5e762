"""Until when the changes of which types' spot prices are kept.

Revision: 20261130_5
Follows: 20261130_4
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_5"
down_revision = "20261130_4"
branch_labels = None
depends_on = None

MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "spot_coverage",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("known_until", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("provider", "region", "instance_type", name="pk_spot_coverage"),
    )


def downgrade() -> None:
    op.drop_table("spot_coverage")
