"""The rate code of a quote: the one line of the price list that it stands in.

Revision: 20261130_6
Follows: 20261130_5
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_6"
down_revision = "20261130_5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("price_quotes", sa.Column("rate_code", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("price_quotes", "rate_code")
