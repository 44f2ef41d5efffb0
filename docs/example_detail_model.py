"""What a drive command has to be, and a rule that no JSON schema can say: it stops in time."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator

BRAKING_MPS2 = 0.5


class Drive(BaseModel):
    """The detail of a drive goal; the fields are generated in this order."""

    target_speed_mps: Annotated[float, Field(ge=0.0, le=1.5, multiple_of=0.1)]
    free_path_m: Annotated[int, Field(ge=0, le=20)]
    side: Literal['left', 'right', 'middle']
    reason: Annotated[str, Field(min_length=1, max_length=60, pattern='^[A-Za-z ,]+$')]

    @model_validator(mode='after')
    def stops_in_time(self) -> 'Drive':
        """Refuse a speed from which the robot cannot stop where its path ends."""
        needed_m = self.target_speed_mps ** 2 / (2 * BRAKING_MPS2)
        if needed_m > self.free_path_m:
            raise ValueError(
                f'{self.target_speed_mps} m/s needs {needed_m:.2f} m to stop, and only '
                f'{self.free_path_m} m are free')
        return self
